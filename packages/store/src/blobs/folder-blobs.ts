import { mkdir, readdir, rename, rm } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import type { BlobLocation, Blobs } from '../contract/blobs.ts';
import { checkBlobKey } from './blob-key.ts';
import { syncPath, syncTree, writeDurably } from './durable-file.ts';
import { EncodedBlobs, keyOfFile } from './encoded-blobs.ts';
import { directoryTaken, exists, fileFault, isMissing, isTaken } from './file-fault.ts';
import { makeFolders } from '../folders/make-folders.ts';
import { StagingArea } from './staging-area.ts';

const DIRECTORY = '.dir';

/** `Blobs` in a local folder: `files/<key>.<kind>`, `directories/<key>.dir/`, `staging/` for what is being written. */
export class FolderBlobs extends EncodedBlobs implements Blobs {
  readonly location: Extract<BlobLocation, { kind: 'folder' }>;
  readonly #files: string;
  readonly #directories: string;
  readonly #staging: StagingArea;

  /** Makes the folder when absent and removes what dead processes left half-written. */
  static async open(root: string): Promise<FolderBlobs> {
    const path = resolve(root);
    try {
      for (const part of ['files', 'directories']) makeFolders(join(path, part), 0o700);
      return new FolderBlobs(path, await StagingArea.open(join(path, 'staging')));
    } catch (error) {
      throw fileFault(error, `blob folder ${path}`);
    }
  }

  private constructor(root: string, staging: StagingArea) {
    super();
    this.location = { kind: 'folder', root };
    this.#files = join(root, 'files');
    this.#directories = join(root, 'directories');
    this.#staging = staging;
  }

  protected async writeFile(
    name: string,
    chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
    signal?: AbortSignal,
  ): Promise<{ sizeBytes: number }> {
    const target = join(this.#files, name);
    const temporary = this.#staging.freshPath();
    try {
      const sizeBytes = await writeDurably(temporary, chunks, signal);
      await this.#makeParents(target);
      await rename(temporary, target);
      await syncPath(dirname(target));
      return { sizeBytes };
    } catch (error) {
      await rm(temporary, { force: true });
      throw fileFault(error, `blob ${keyOfFile(name)}`);
    }
  }

  protected async localPath(name: string): Promise<string | null> {
    const path = join(this.#files, name);
    return (await exists(path)) ? path : null;
  }

  protected async hasFile(name: string): Promise<boolean> {
    return await exists(join(this.#files, name));
  }

  protected async removeFile(name: string): Promise<boolean> {
    try {
      await rm(join(this.#files, name));
      return true;
    } catch (error) {
      if (isMissing(error)) return false;
      throw fileFault(error, `blob ${keyOfFile(name)}`);
    }
  }

  async listKeys(): Promise<string[]> {
    const keys = new Set<string>();
    for await (const path of walk(this.#files, () => false)) keys.add(keyOfFile(path));
    return [...keys];
  }

  async stageDirectory(): Promise<string> {
    const path = this.#staging.freshPath();
    try {
      await mkdir(path, { mode: 0o700 });
    } catch (error) {
      throw fileFault(error, 'staging a directory');
    }
    return path;
  }

  async commitDirectory(staged: string, key: string): Promise<void> {
    const target = this.#directoryPath(key);
    this.#staging.check(staged);
    try {
      if (await exists(target)) throw directoryTaken(key);
      await syncTree(staged);
      await this.#makeParents(target);
      await rename(staged, target);
      await syncPath(dirname(target));
    } catch (error) {
      // Lost a race for the key: rename does not replace a directory that has something in it.
      if (isTaken(error)) throw directoryTaken(key, { cause: error });
      throw fileFault(error, `directory ${key}`);
    }
  }

  async discardDirectory(staged: string): Promise<void> {
    this.#staging.check(staged);
    await rm(staged, { recursive: true, force: true });
  }

  async localDirectory(key: string): Promise<string | null> {
    const path = this.#directoryPath(key);
    return (await exists(path)) ? path : null;
  }

  async removeDirectory(key: string): Promise<boolean> {
    const doomed = this.#staging.freshPath();
    try {
      await rename(this.#directoryPath(key), doomed);
    } catch (error) {
      if (isMissing(error)) return false;
      throw fileFault(error, `directory ${key}`);
    }
    await rm(doomed, { recursive: true, force: true });
    return true;
  }

  async listDirectories(): Promise<string[]> {
    const keys: string[] = [];
    for await (const path of walk(this.#directories, (name) => name.endsWith(DIRECTORY)))
      keys.push(path.slice(0, -DIRECTORY.length));
    return keys;
  }

  /** Removes this handle's staged leftovers. */
  async close(): Promise<void> {
    await this.#staging.close();
  }

  /** Makes the folder of `target`; new names on the way are fsynced too, or a power cut could lose the whole branch. */
  async #makeParents(target: string): Promise<void> {
    const first = makeFolders(dirname(target), 0o700);
    if (first === undefined) return;
    for (let path = dirname(target); path.length >= first.length; path = dirname(path)) await syncPath(dirname(path));
  }

  #directoryPath(key: string): string {
    checkBlobKey(key);
    return join(this.#directories, `${key}${DIRECTORY}`);
  }
}

/** Relative paths of the files below `root`, and of the directories that `isLeaf` names. */
async function* walk(root: string, isLeaf: (name: string) => boolean, below = ''): AsyncGenerator<string> {
  for (const entry of await readdir(join(root, below), { withFileTypes: true })) {
    const path = below === '' ? entry.name : `${below}/${entry.name}`;
    if (entry.isDirectory() && !isLeaf(entry.name)) yield* walk(root, isLeaf, path);
    else yield path;
  }
}
