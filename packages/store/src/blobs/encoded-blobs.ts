import { createReadStream } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { Readable } from 'node:stream';
import type { BinnedItem, BlobItem, BlobKind, BlobSource } from '../contract/blobs.ts';
import { StoreError } from '../contract/errors.ts';
import { checkBlobKey } from './blob-key.ts';
import { fileFault, isMissing } from './file-fault.ts';
import { parseJsonLines, toJsonLines } from './json-lines.ts';
import { compress, decompress } from './zstd-stream.ts';

// The suffix keeps keys apart: keys contain no dot, so `a` and `a/b` never need the same name.
const RAW: BlobKind = 'bin';
const JSON_VALUE: BlobKind = 'json.zst';
const JSON_LINES: BlobKind = 'jsonl.zst';
const KINDS = [RAW, JSON_VALUE, JSON_LINES];

/** Storage-independent half of `Blobs`: maps keys to file names and values to bytes. */
export abstract class EncodedBlobs {
  /** Writes a file whole or not at all. @param name `<key>.<kind>` */
  protected abstract writeFile(
    name: string,
    chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
    signal?: AbortSignal,
  ): Promise<{ sizeBytes: number }>;
  /** Returns a local path at which the file can be read, or null. */
  protected abstract localPath(name: string): Promise<string | null>;
  protected abstract hasFile(name: string): Promise<boolean>;
  /** Returns false if there was none. */
  protected abstract removeFile(name: string): Promise<boolean>;
  /**
   * Moves a file or a directory into the bin. Returns false if there was none.
   * @param name `<key>.<kind>` for a file, the key for a directory
   */
  protected abstract moveToBin(kind: BlobItem['kind'], name: string, at: number): Promise<boolean>;
  /** Moves an item back. Returns false if the bin has none, or the name is taken. */
  protected abstract moveFromBin(kind: BlobItem['kind'], name: string, at: number): Promise<boolean>;
  protected abstract removeFromBin(kind: BlobItem['kind'], name: string, at: number): Promise<void>;

  async put(key: string, source: BlobSource, options: { signal?: AbortSignal } = {}): Promise<{ sizeBytes: number }> {
    return this.writeFile(fileName(key, RAW), source instanceof Uint8Array ? [source] : source, options.signal);
  }

  async get(key: string): Promise<Uint8Array> {
    return this.#read(key, RAW);
  }

  async localFile(key: string): Promise<string | null> {
    return this.localPath(fileName(key, RAW));
  }

  async putJson(key: string, value: unknown): Promise<{ sizeBytes: number }> {
    return this.writeFile(fileName(key, JSON_VALUE), compress([Buffer.from(JSON.stringify(value))]));
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
    return this.writeFile(fileName(key, JSON_LINES), compress(toJsonLines(values)), options.signal);
  }

  async *getJsonLines(key: string, read?: (line: string) => unknown): AsyncGenerator<unknown> {
    yield* parseJsonLines(await this.openJsonLines(key), read);
  }

  async openJsonLines(key: string): Promise<Readable> {
    const path = await this.localPath(fileName(key, JSON_LINES));
    if (path === null) throw missing(key);
    return Readable.from(decompress(createReadStream(path), key), { objectMode: false });
  }

  async rawFiles(key: string): Promise<{ kind: BlobKind; path: string }[]> {
    const files = [];
    for (const kind of KINDS) {
      const path = await this.localPath(fileName(key, kind));
      if (path !== null) files.push({ kind, path });
    }
    return files;
  }

  async putRaw(key: string, kind: BlobKind, source: BlobSource): Promise<{ sizeBytes: number }> {
    return this.writeFile(fileName(key, kind), source instanceof Uint8Array ? [source] : source);
  }

  async has(key: string): Promise<boolean> {
    for (const name of fileNames(key)) if (await this.hasFile(name)) return true;
    return false;
  }

  async remove(key: string): Promise<boolean> {
    let isRemoved = false;
    for (const name of fileNames(key)) isRemoved = (await this.removeFile(name)) || isRemoved;
    return isRemoved;
  }

  async discard(item: BlobItem, at: number): Promise<boolean> {
    let isMoved = false;
    for (const name of namesOf(item)) isMoved = (await this.moveToBin(item.kind, name, at)) || isMoved;
    return isMoved;
  }

  async restore(item: BinnedItem): Promise<boolean> {
    let isMoved = false;
    for (const name of namesOf(item)) isMoved = (await this.moveFromBin(item.kind, name, item.binnedAt)) || isMoved;
    return isMoved;
  }

  async removeBinned(item: BinnedItem): Promise<void> {
    for (const name of namesOf(item)) await this.removeFromBin(item.kind, name, item.binnedAt);
  }

  async #read(key: string, kind: BlobKind): Promise<Buffer> {
    const path = await this.localPath(fileName(key, kind));
    if (path === null) throw missing(key);
    try {
      return await readFile(path);
    } catch (error) {
      throw isMissing(error) ? missing(key) : fileFault(error, `blob ${key}`);
    }
  }
}

export const keyOfFile = (name: string): string => name.slice(0, name.indexOf('.'));

function fileName(key: string, kind: BlobKind): string {
  checkBlobKey(key);
  return `${key}.${kind}`;
}

const fileNames = (key: string): string[] => KINDS.map((kind) => fileName(key, kind));

function namesOf({ kind, key }: BlobItem): string[] {
  checkBlobKey(key);
  return kind === 'blob' ? fileNames(key) : [key];
}

function missing(key: string): StoreError {
  return new StoreError('store.blob_missing', `blob ${key} does not exist`);
}
