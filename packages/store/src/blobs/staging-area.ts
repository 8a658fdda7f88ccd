import { randomUUID } from 'node:crypto';
import { mkdir, readdir, rm } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join, relative, resolve, sep } from 'node:path';
import { isMainThread, threadId } from 'node:worker_threads';
import { StoreError } from '../contract/errors.ts';
import { makeFolders } from '../folders/make-folders.ts';

/** Names of the areas in use by this thread. */
const OWN_AREAS = new Set<string>();

/**
 * Folder for unfinished writes, one per open handle, named `<host>.<pid>.<random>`
 * (`<host>.<pid>t<thread>.<random>` in a worker thread). Opening removes the folders of dead processes of
 * this host. Those of live processes, and of other hosts on a shared disk, stay.
 */
export class StagingArea {
  readonly path: string;
  readonly #name: string;

  static async open(root: string): Promise<StagingArea> {
    makeFolders(root, 0o700);
    for (const name of await readdir(root))
      if (isAbandoned(name)) await rm(join(root, name), { recursive: true, force: true });
    const name = `${hostname()}.${process.pid}${isMainThread ? '' : `t${threadId}`}.${randomUUID()}`;
    OWN_AREAS.add(name);
    await mkdir(join(root, name), { mode: 0o700 });
    return new StagingArea(root, name);
  }

  private constructor(root: string, name: string) {
    this.#name = name;
    this.path = join(root, name);
  }

  freshPath(): string {
    return join(this.path, randomUUID());
  }

  /** @throws {StoreError} `store.key_invalid` unless the path was made by this area */
  check(path: string): void {
    const name = relative(this.path, resolve(path));
    if (name === '' || name.startsWith('..') || name.includes(sep))
      throw new StoreError('store.key_invalid', `${path} was not staged by this handle`);
  }

  async close(): Promise<void> {
    await rm(this.path, { recursive: true, force: true });
    OWN_AREAS.delete(this.#name);
  }
}

function isAbandoned(name: string): boolean {
  const match = /^(.*)\.(\d+)(t\d+)?\.[0-9a-f-]{36}$/.exec(name);
  if (match === null || match[1] !== hostname()) return false;
  const pid = Number(match[2]);
  if (pid === process.pid) {
    // The same pid but not ours: an earlier life of this container, in which every start has the same pid.
    // Only the main thread knows the areas in use; those of other threads only at its first open, before
    // there are threads.
    const isOfThread = match[3] !== undefined;
    return isMainThread && (isOfThread ? OWN_AREAS.size === 0 : !OWN_AREAS.has(name));
  }
  try {
    process.kill(pid, 0); // signal 0 only checks that the process exists
    return false;
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'ESRCH'; // EPERM: it is alive under another user
  }
}
