import { existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { replaceDirectory } from '../checkpoint/durable-directory.ts';

/** One directory per version on this machine. */
export interface VersionFolders {
  /** Local path of an immutable directory, or null. */
  find(name: string): Promise<string | null>;
  /**
   * @param fill writes and syncs files in an empty directory. The version appears complete or not at all, and
   * replaces one of that name
   */
  write<Result>(name: string, fill: (directory: string) => Result): Promise<Result>;
  /** Removes a version, if it exists. */
  remove(name: string): Promise<void>;
}

/** The name is the path. */
export class LocalVersions implements VersionFolders {
  readonly #root: string;

  /** @param root base of relative names; default: names are paths */
  constructor(root = '') {
    this.#root = root;
  }

  async find(name: string): Promise<string | null> {
    const path = join(this.#root, name);
    return existsSync(path) ? path : null;
  }

  async write<Result>(name: string, fill: (directory: string) => Result): Promise<Result> {
    return replaceDirectory(join(this.#root, name), fill);
  }

  async remove(name: string): Promise<void> {
    rmSync(join(this.#root, name), { recursive: true, force: true });
  }
}
