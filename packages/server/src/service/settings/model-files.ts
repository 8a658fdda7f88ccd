import { closeSync, existsSync, openSync, readSync, statSync } from 'node:fs';

import { copySource, ModelFolderError } from '@trainyard/trainer';

import { ServerError } from '../../seams/faults/server-error.ts';
import type { ModelConfig } from './model-settings.ts';
import { settingFault } from './setting-fault.ts';

/**
 * Refuses missing files, and files that are clearly not models, before anything is written.
 * @throws {ServerError} `server.model_missing`, `server.config_invalid`
 */
export function refuseMissingModels(models: readonly ModelConfig[]): void {
  for (const { path, chatTemplate } of models) {
    if (!existsSync(path))
      throw new ServerError(
        'server.model_missing',
        `the model file ${path} does not exist; set TRAINYARD_MODEL to a GGUF file, a folder or a model of the hub (ORG/NAME), or unset it: "trainyard serve" then downloads the default model`,
      );
    if (!isFolder(path)) {
      const problem = fileProblem(path);
      if (problem !== null) throw settingFault(`the model file ${path} ${problem}`);
    }
    refuseUnreadableSource(path, chatTemplate);
  }
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
}

/** Checks all but the values of the weights. */
function refuseUnreadableSource(path: string, chatTemplate: string | null): void {
  try {
    copySource(path, chatTemplate)?.open()[Symbol.dispose]();
  } catch (error) {
    throw modelFault(path, error);
  }
}

/** @returns a fault for a folder or file that is no usable model; other errors as they are */
export function modelFault(path: string, error: unknown): unknown {
  if (!(error instanceof ModelFolderError)) return error;
  return settingFault(`the model ${isFolder(path) ? 'folder' : 'file'} ${path}: ${error.message}`);
}

const MAGIC = 'GGUF';

function fileProblem(path: string): string | null {
  try {
    if (!statSync(path).isFile()) return 'is not a file';
    const file = openSync(path, 'r');
    try {
      const start = Buffer.alloc(MAGIC.length);
      readSync(file, start);
      return start.equals(Buffer.from(MAGIC)) ? null : `is not a readable GGUF file: no "${MAGIC}" magic`;
    } finally {
      closeSync(file);
    }
  } catch (error) {
    return `cannot be read: ${(error as Error).message}`;
  }
}
