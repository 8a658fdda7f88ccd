import { convertedFolder, TrainerError } from '@trainyard/trainer';

import { dataPaths } from '../../seams/data/data-directory.ts';
import { ServerError } from '../../seams/faults/server-error.ts';
import type { Log } from '../../seams/logging/log.ts';
import type { ServiceConfig } from '../settings/config.ts';
import { folderFault, isFolder, type ModelConfig } from '../settings/model-settings.ts';

/**
 * Replaces folders in the Hugging Face format by GGUF files made from them, which the data folder keeps. Call it
 * after claiming the data folder.
 * @throws {ServerError} `server.config_invalid`, `server.data_directory_unusable`
 */
export async function convertModelFolders(config: ServiceConfig, log: Log): Promise<ServiceConfig> {
  const { models: directory } = dataPaths(config.dataDirectory);
  const models: ModelConfig[] = [];
  for (const model of config.models)
    models.push(isFolder(model.path) ? { ...model, path: await convert(model, directory, log) } : model);
  return { ...config, models };
}

async function convert({ id, path }: ModelConfig, directory: string, log: Log): Promise<string> {
  try {
    return await convertedFolder(path, {
      directory,
      onConvert: (copy, sizeBytes) =>
        log(`converting the folder of ${id} to ${copy} (${Math.ceil(sizeBytes / 1e6)} MB), once`),
    });
  } catch (error) {
    if (error instanceof TrainerError) throw new ServerError('server.data_directory_unusable', error.message);
    throw folderFault(path, error);
  }
}
