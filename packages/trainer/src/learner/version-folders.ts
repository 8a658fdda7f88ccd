import { existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { replaceDirectory } from '../checkpoint/durable-directory.ts';

/** Where a learner on this machine keeps its adapter versions: a directory each, by name. */
export interface VersionFolders {
  /** Local path of a version's directory, or null. Nothing in it changes. */
  find(name: string): Promise<string | null>;
  /**
   * Makes a version of the files that `fill` writes into an empty directory and syncs; it appears whole or not at all, in place of one that
   * has the name.
   */
  write<Result>(name: string, fill: (directory: string) => Result): Promise<Result>;
  /** None of that name is fine. */
  remove(name: string): Promise<void>;
}

/** Versions in plain directories: a name is the path. */
export class LocalVersions implements VersionFolders {
  readonly #root: string;

  /** @param root that names are relative to; default: they are paths by themselves */
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
