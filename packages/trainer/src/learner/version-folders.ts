import { existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { replaceDirectory } from '../checkpoint/durable-directory.ts';

/** Adapter versions of a learner on this machine: one directory each, by name. */
export interface VersionFolders {
  /** Local path of a version's immutable directory, or null. */
  find(name: string): Promise<string | null>;
  /**
   * Creates a version from the files that `fill` writes and syncs in an empty directory. It appears complete or
   * not at all, and replaces one of that name.
   */
  write<Result>(name: string, fill: (directory: string) => Result): Promise<Result>;
  /** Removes a version, if it exists. */
  remove(name: string): Promise<void>;
}

/** Versions in plain directories; the name is the path. */
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
