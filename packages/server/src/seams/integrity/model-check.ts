import { DamagedFileError } from '@trainyard/trainer';

import { BackendFailure } from '../faults/backend-failure.ts';
import type { ModelFiles } from './model-files.ts';

export interface ModelCheck {
  /** Checks the file before it is opened. @throws {BackendFailure} `engine.model_damaged` */
  check(id: string): Promise<void>;
  /** @throws {BackendFailure} `engine.model_damaged` if the file was found damaged since it was opened */
  refuseDamaged(id: string): void;
}

export interface FilesOfModel {
  readonly path: string;
  /** Copies in another precision, existing or not. */
  readonly copies: readonly string[];
}

/** @param filesOf null for an unknown model */
export function modelCheck(files: ModelFiles, filesOf: (id: string) => FilesOfModel | null): ModelCheck {
  const refuseDamaged = (id: string): void => {
    const found = filesOf(id);
    if (found === null) return;
    for (const path of [found.path, ...found.copies]) {
      const reason = files.damageOf(path);
      if (reason !== null) throw damaged(id, reason);
    }
  };
  return {
    refuseDamaged,
    check: async (id) => {
      const found = filesOf(id);
      if (found === null) return;
      for (const copy of found.copies) await files.checkCopy(copy);
      try {
        await files.check(found.path);
      } catch (error) {
        throw error instanceof DamagedFileError ? damaged(id, error.message) : error;
      }
    },
  };
}

function damaged(id: string, reason: string): BackendFailure {
  return new BackendFailure('engine.model_damaged', `The base model \`${id}\` cannot be used: ${reason}`, 'model');
}
