import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeFolders, replaceFile } from '../checkpoint/durable-directory.ts';

/** One small JSON record per name, replaced completely. */
export interface ProgressRecords {
  /** Null for a missing or unreadable record. */
  read(name: string): Promise<unknown>;
  /** @throws {TrainerError} `trainer.disk_full` */
  write(name: string, record: object): Promise<void>;
}

export const PROGRESS_FILE = 'progress.json';

/** Records in `progress.json` in the directory of the name: JSON on the first line, its SHA-256 on the second. */
export class ProgressFiles implements ProgressRecords {
  readonly #root: string;

  /** @param root base of relative names; default: names are paths */
  constructor(root = '') {
    this.#root = root;
  }

  async read(name: string): Promise<unknown> {
    return this.readNow(name);
  }

  readNow(name: string): unknown {
    try {
      const [json = '', digest] = readFileSync(this.#path(name), 'utf8').split('\n');
      // Earlier releases wrote no digest.
      if (digest !== undefined && digest !== digestOf(json)) return null;
      return JSON.parse(json) as unknown;
    } catch (error) {
      const isMissing = error instanceof Error && 'code' in error && error.code === 'ENOENT';
      if (isMissing || error instanceof SyntaxError) return null;
      throw error;
    }
  }

  async write(name: string, record: object): Promise<void> {
    makeFolders(join(this.#root, name));
    const json = JSON.stringify(record);
    replaceFile(this.#path(name), `${json}\n${digestOf(json)}\n`);
  }

  #path(name: string): string {
    return join(this.#root, name, PROGRESS_FILE);
  }
}

function digestOf(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
