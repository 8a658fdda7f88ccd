import { createReadStream } from 'node:fs';
import { mkdir, readdir, readFile, rename, rm, stat } from 'node:fs/promises';
import { dirname, join, relative, resolve, sep } from 'node:path';
import { Readable } from 'node:stream';
import { checkBlobKey } from './blob-key.ts';
import type { Blobs, BlobSource } from '../contract/blobs.ts';
import { syncPath, syncTree, writeDurably } from './durable-file.ts';
import { StoreError } from '../contract/errors.ts';
import { fileFault, isMissing } from './file-fault.ts';
import { parseJsonLines, toJsonLines } from './json-lines.ts';
import { StagingArea } from './staging-area.ts';
import { compress, decompress } from './zstd-stream.ts';

// A suffix keeps keys apart: no key contains a dot, so `a` and `a/b` never want the same path.
const RAW = '.bin';
const JSON_VALUE = '.json.zst';
const JSON_LINES = '.jsonl.zst';
const DIRECTORY = '.dir';

/** `Blobs` in a local folder: `files/<key>.<kind>`, `directories/<key>.dir/`, `staging/` for what is being written. */
export class FolderBlobs implements Blobs {
  readonly root: string;
  readonly #files: string;
  readonly #directories: string;
  readonly #staging: StagingArea;

  /** Makes the folder when absent and removes what dead processes left half-written. */
  static async open(root: string): Promise<FolderBlobs> {
    const path = resolve(root);
    try {
      for (const part of ['files', 'directories']) await mkdir(join(path, part), { recursive: true, mode: 0o700 });
      return new FolderBlobs(path, await StagingArea.open(join(path, 'staging')));
    } catch (error) {
      throw fileFault(error, `blob folder ${path}`);
    }
  }

  private constructor(root: string, staging: StagingArea) {
    this.root = root;
    this.#files = join(root, 'files');
    this.#directories = join(root, 'directories');
    this.#staging = staging;
  }

  async put(key: string, source: BlobSource, options: { signal?: AbortSignal } = {}): Promise<{ sizeBytes: number }> {
    return this.#write(key, RAW, source instanceof Uint8Array ? [source] : source, options.signal);
  }

  async get(key: string): Promise<Uint8Array> {
    return this.#read(key, RAW);
  }

  async localFile(key: string): Promise<string | null> {
    const path = this.#filePath(key, RAW);
    return (await exists(path)) ? path : null;
  }

  async putJson(key: string, value: unknown): Promise<{ sizeBytes: number }> {
    return this.#write(key, JSON_VALUE, compress([Buffer.from(JSON.stringify(value))]));
  }

  async getJson(key: string): Promise<unknown> {
    const chunks: Buffer[] = [];
    for await (const chunk of decompress(await this.#read(key, JSON_VALUE), key)) chunks.push(chunk);
    return JSON.parse(Buffer.concat(chunks).toString('utf8'));
  }

  async putJsonLines(
    key: string,
    values: Iterable<unknown> | AsyncIterable<unknown>,
    options: { signal?: AbortSignal } = {},
  ): Promise<{ sizeBytes: number }> {
    return this.#write(key, JSON_LINES, compress(toJsonLines(values)), options.signal);
  }

  async *getJsonLines(key: string): AsyncGenerator<unknown> {
    yield* parseJsonLines(await this.openJsonLines(key));
  }

  async openJsonLines(key: string): Promise<Readable> {
    const path = this.#filePath(key, JSON_LINES);
    if (!(await exists(path))) throw missing(key);
    return Readable.from(decompress(createReadStream(path), key), { objectMode: false });
  }

  async has(key: string): Promise<boolean> {
    for (const path of this.#filePaths(key)) if (await exists(path)) return true;
    return false;
  }

  async remove(key: string): Promise<boolean> {
    let isRemoved = false;
    for (const path of this.#filePaths(key)) {
      try {
        await rm(path);
        isRemoved = true;
      } catch (error) {
        if (!isMissing(error)) throw fileFault(error, `blob ${key}`);
      }
    }
    return isRemoved;
  }

  async listKeys(): Promise<string[]> {
    const keys = new Set<string>();
    for await (const path of walk(this.#files, () => false)) keys.add(path.slice(0, path.indexOf('.')));
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
    this.#checkStaged(staged);
    try {
      if (await exists(target))
        throw new StoreError('store.blob_exists', `directory ${key} exists already; directories are never replaced`);
      await syncTree(staged);
      await this.#makeParents(target);
      await rename(staged, target);
      await syncPath(dirname(target));
    } catch (error) {
      // Lost a race for the key: rename does not replace a directory that has something in it.
      if (error instanceof Error && 'code' in error && (error.code === 'ENOTEMPTY' || error.code === 'EEXIST')) {
        throw new StoreError('store.blob_exists', `directory ${key} exists already; directories are never replaced`, {
          cause: error,
        });
      }
      throw fileFault(error, `directory ${key}`);
    }
  }

  async discardDirectory(staged: string): Promise<void> {
    this.#checkStaged(staged);
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

  async #write(
    key: string,
    kind: string,
    chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
    signal?: AbortSignal,
  ): Promise<{ sizeBytes: number }> {
    const target = this.#filePath(key, kind);
    const temporary = this.#staging.freshPath();
    try {
      const sizeBytes = await writeDurably(temporary, chunks, signal);
      await this.#makeParents(target);
      await rename(temporary, target);
      await syncPath(dirname(target));
      return { sizeBytes };
    } catch (error) {
      await rm(temporary, { force: true });
      throw fileFault(error, `blob ${key}`);
    }
  }

  async #read(key: string, kind: string): Promise<Buffer> {
    const path = this.#filePath(key, kind);
    try {
      return await readFile(path);
    } catch (error) {
      throw isMissing(error) ? missing(key) : fileFault(error, `blob ${key}`);
    }
  }

  /** Makes the folder of `target`; new names on the way are fsynced too, or a power cut could lose the whole branch. */
  async #makeParents(target: string): Promise<void> {
    const first = await mkdir(dirname(target), { recursive: true, mode: 0o700 });
    if (first === undefined) return;
    for (let path = dirname(target); path.length >= first.length; path = dirname(path)) await syncPath(dirname(path));
  }

  #filePath(key: string, kind: string): string {
    checkBlobKey(key);
    return join(this.#files, `${key}${kind}`);
  }

  #filePaths(key: string): string[] {
    return [RAW, JSON_VALUE, JSON_LINES].map((kind) => this.#filePath(key, kind));
  }

  #directoryPath(key: string): string {
    checkBlobKey(key);
    return join(this.#directories, `${key}${DIRECTORY}`);
  }

  #checkStaged(path: string): void {
    const name = relative(this.#staging.path, resolve(path));
    if (name === '' || name.startsWith('..') || name.includes(sep))
      throw new StoreError('store.key_invalid', `${path} was not staged by this handle`);
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

async function exists(path: string): Promise<boolean> {
  try {
    await stat(path);
    return true;
  } catch (error) {
    if (isMissing(error)) return false;
    throw fileFault(error, path);
  }
}

function missing(key: string): StoreError {
  return new StoreError('store.blob_missing', `there is no blob ${key}`);
}
