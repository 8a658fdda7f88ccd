import { copySource, modelCopy, TrainerError } from '@trainyard/trainer';

import { dataPaths } from '../../seams/data/data-directory.ts';
import { ServerError } from '../../seams/faults/server-error.ts';
import type { Log } from '../../seams/logging/log.ts';
import type { ServiceConfig } from '../settings/config.ts';
import { modelFault } from '../settings/model-files.ts';
import type { ModelConfig } from '../settings/model-settings.ts';

/**
 * Replaces folders in the Hugging Face format, and files with another chat template, by GGUF files made from them,
 * which the data folder keeps. Call it after claiming the data folder.
 * @throws {ServerError} `server.config_invalid`, `server.data_directory_unusable`
 */
export async function prepareModels(config: ServiceConfig, log: Log): Promise<ServiceConfig> {
  const { models: directory } = dataPaths(config.dataDirectory);
  const models: ModelConfig[] = [];
  for (const model of config.models) models.push({ ...model, path: await prepare(model, directory, log) });
  return { ...config, models };
}

async function prepare({ id, path, chatTemplate }: ModelConfig, directory: string, log: Log): Promise<string> {
  try {
    const source = copySource(path, chatTemplate);
    if (source === null) return path;
    return await modelCopy(source, {
      directory,
      onCopy: (copy, sizeBytes) => log(`making ${copy} of ${id} (${Math.ceil(sizeBytes / 1e6)} MB), once`),
    });
  } catch (error) {
    if (error instanceof TrainerError) throw new ServerError('server.data_directory_unusable', error.message);
    throw modelFault(path, error);
  }
}
