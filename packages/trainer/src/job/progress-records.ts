import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeFolders, replaceFile } from '../checkpoint/durable-directory.ts';

/** One small JSON record by name; a later one replaces it whole. */
export interface ProgressRecords {
  /** Null when there is none, or one that cannot be read. */
  read(name: string): Promise<unknown>;
  /** @throws {TrainerError} `trainer.disk_full` */
  write(name: string, record: object): Promise<void>;
}

/** The file of a record. */
export const PROGRESS_FILE = 'progress.json';

/** Records in files: `progress.json` in the directory of the name, JSON on its first line and the SHA-256 of that line on its second. */
export class ProgressFiles implements ProgressRecords {
  readonly #root: string;

  /** @param root that names are relative to; default: they are paths by themselves */
  constructor(root = '') {
    this.#root = root;
  }

  async read(name: string): Promise<unknown> {
    return this.readNow(name);
  }

  /** As `read`, in one go. */
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
