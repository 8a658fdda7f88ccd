import type { Dirent } from 'node:fs';
import { mkdir, readdir, readFile, rename, rm, rmdir, stat } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import type { BinnedItem, BlobItem, BlobLocation, Blobs, DirectoryFile, FileList } from '../contract/blobs.ts';
import { checkBlobKey } from './blob-key.ts';
import { syncPath, syncTree, writeDurably } from './durable-file.ts';
import { EncodedBlobs, keyOfFile } from './encoded-blobs.ts';
import { filesBelow } from './file-hash.ts';
import { directoryTaken, exists, fileFault, isMissing, isTaken } from './file-fault.ts';
import { makeFolders } from '../folders/make-folders.ts';
import { StagingArea } from './staging-area.ts';

const DIRECTORY = '.dir';

/**
 * `Blobs` in a local folder: `files/<key>.<kind>`, `directories/<key>.dir/`, `staging/` for unfinished
 * writes, and `bin/<ms>/` with the same two folders for items discarded at that time.
 */
export class FolderBlobs extends EncodedBlobs implements Blobs {
  readonly location: Extract<BlobLocation, { kind: 'folder' }>;
  readonly #files: string;
  readonly #directories: string;
  readonly #bin: string;
  readonly #staging: StagingArea;

  /** Creates the folder if absent and removes unfinished writes of dead processes. */
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
    this.#bin = join(root, 'bin');
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
      makeFolders(dirname(target), 0o700);
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

  async listKeys(prefix = ''): Promise<string[]> {
    const keys = new Set<string>();
    for await (const path of walk(this.#files, () => false, folderOf(prefix)))
      if (path.startsWith(prefix)) keys.add(keyOfFile(path));
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
      makeFolders(dirname(target), 0o700);
      await rename(staged, target);
      await syncPath(dirname(target));
    } catch (error) {
      // Lost a race for the key: rename does not replace a directory with content.
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

  async readDirectoryFile(key: string, path: string): Promise<Uint8Array | null> {
    try {
      return await readFile(join(this.#directoryPath(key), path));
    } catch (error) {
      if (isMissing(error)) return null;
      throw fileFault(error, `directory ${key}`);
    }
  }

  async directoryFiles(key: string): Promise<DirectoryFile[] | null> {
    const root = this.#directoryPath(key);
    try {
      if (!(await exists(root))) return null;
      const paths = (await filesBelow(root)).toSorted();
      return await Promise.all(paths.map(async (path) => ({ path, sizeBytes: (await stat(join(root, path))).size })));
    } catch (error) {
      if (isMissing(error)) return null;
      throw fileFault(error, `directory ${key}`);
    }
  }

  async removeDirectoryFile(key: string, path: string, list: FileList | null): Promise<void> {
    const root = this.#directoryPath(key);
    const temporary = this.#staging.freshPath();
    try {
      if (!(await exists(root))) return;
      await rm(join(root, path), { force: true });
      await syncPath(root);
      if (list === null) return;
      await writeDurably(temporary, [Buffer.from(list.text)]);
      await rename(temporary, join(root, list.path));
      await syncPath(root);
    } catch (error) {
      await rm(temporary, { force: true });
      if (!isMissing(error)) throw fileFault(error, `directory ${key}`);
    }
  }

  async listDirectories(prefix = ''): Promise<string[]> {
    const keys: string[] = [];
    for await (const path of walk(this.#directories, isDirectoryName, folderOf(prefix)))
      if (path.startsWith(prefix)) keys.push(path.slice(0, -DIRECTORY.length));
    return keys;
  }

  async listBin(): Promise<BinnedItem[]> {
    const items = new Map<string, BinnedItem>();
    for await (const path of walk(this.#bin, isDirectoryName)) {
      const [, at = '', folder, name = ''] = /^(\d+)\/(files|directories)\/(.+)$/.exec(path) ?? [];
      if (name === '') continue;
      const kind = folder === 'files' ? 'blob' : 'directory';
      const key = kind === 'blob' ? keyOfFile(name) : name.slice(0, -DIRECTORY.length);
      items.set(`${at} ${kind} ${key}`, { kind, key, binnedAt: Number(at) });
    }
    return [...items.values()];
  }

  protected async moveToBin(kind: BlobItem['kind'], name: string, at: number): Promise<boolean> {
    return await this.#move(this.#pathOf(kind, name), this.#binPathOf(kind, name, at));
  }

  protected async moveFromBin(kind: BlobItem['kind'], name: string, at: number): Promise<boolean> {
    const target = this.#pathOf(kind, name);
    if (await exists(target)) return false;
    const path = this.#binPathOf(kind, name, at);
    const isMoved = await this.#move(path, target);
    await this.#removeEmptyFolders(path);
    return isMoved;
  }

  protected async removeFromBin(kind: BlobItem['kind'], name: string, at: number): Promise<void> {
    const path = this.#binPathOf(kind, name, at);
    await rm(path, { recursive: true, force: true });
    await this.#removeEmptyFolders(path);
  }

  /** Does nothing: `open` removes unfinished writes of dead processes. */
  async removeUnfinished(): Promise<void> {}

  /** Removes this handle's staged leftovers. */
  async close(): Promise<void> {
    await this.#staging.close();
  }

  /** Returns false if there is nothing to move. */
  async #move(path: string, target: string): Promise<boolean> {
    try {
      if (!(await exists(path))) return false;
      makeFolders(dirname(target), 0o700);
      await rename(path, target);
      for (const folder of [dirname(target), dirname(path)]) await syncPath(folder);
      return true;
    } catch (error) {
      if (isMissing(error)) return false;
      throw fileFault(error, `blobs: ${path}`);
    }
  }

  async #removeEmptyFolders(path: string): Promise<void> {
    for (let folder = dirname(path); folder.startsWith(this.#bin); folder = dirname(folder)) {
      try {
        await rmdir(folder);
      } catch {
        return; // not empty
      }
    }
  }

  #pathOf(kind: BlobItem['kind'], name: string): string {
    return kind === 'blob' ? join(this.#files, name) : this.#directoryPath(name);
  }

  #binPathOf(kind: BlobItem['kind'], name: string, at: number): string {
    const folder = kind === 'blob' ? 'files' : 'directories';
    return join(this.#bin, String(at), folder, kind === 'blob' ? name : `${name}${DIRECTORY}`);
  }

  #directoryPath(key: string): string {
    checkBlobKey(key);
    return join(this.#directories, `${key}${DIRECTORY}`);
  }
}

const isDirectoryName = (name: string): boolean => name.endsWith(DIRECTORY);

/** Folder of all keys with a prefix: `a/b/` for `a/b/c`. */
const folderOf = (prefix: string): string => prefix.slice(0, Math.max(0, prefix.lastIndexOf('/')));

/**
 * Relative paths of the files below `root`, and of the directories that `isLeaf` accepts. Empty without such
 * a folder.
 */
async function* walk(root: string, isLeaf: (name: string) => boolean, below = ''): AsyncGenerator<string> {
  for (const entry of await entriesOf(join(root, below))) {
    const path = below === '' ? entry.name : `${below}/${entry.name}`;
    if (entry.isDirectory() && !isLeaf(entry.name)) yield* walk(root, isLeaf, path);
    else yield path;
  }
}

async function entriesOf(folder: string): Promise<Dirent[]> {
  try {
    return await readdir(folder, { withFileTypes: true });
  } catch (error) {
    if (isMissing(error)) return [];
    throw error;
  }
}
