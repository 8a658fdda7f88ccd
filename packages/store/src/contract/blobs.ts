import type { Readable } from 'node:stream';

/** Where blobs are, for another thread or process of this machine to open them too. It holds no key. */
export type BlobLocation =
  | { readonly kind: 'folder'; readonly root: string }
  | {
      readonly kind: 's3';
      /** `https://HOST[:PORT]/BUCKET[/PREFIX]` */
      readonly url: string;
      readonly region: string;
      /** A folder of this machine for what was read and written; processes may share it. */
      readonly cacheDirectory: string;
      readonly cacheBytes: number;
    };

/** How a file lies there: raw bytes, one JSON value, or one a line, the last two compressed. */
export type BlobKind = 'bin' | 'json.zst' | 'jsonl.zst';

/** Bytes to store: whole, or as they come. */
export type BlobSource = Uint8Array | AsyncIterable<Uint8Array> | Iterable<Uint8Array>;

/** A file of a directory, by its path below it. */
export interface DirectoryFile {
  readonly path: string;
  readonly sizeBytes: number;
}

/** New text of a file that lists the files of a directory. */
export interface FileList {
  readonly path: string;
  readonly text: string;
}

/** A blob, or a directory, by its key. */
export interface BlobItem {
  readonly kind: 'blob' | 'directory';
  readonly key: string;
}

/** An item in the bin. */
export interface BinnedItem extends BlobItem {
  /** When it was moved there, milliseconds since the epoch, as the caller of `discard` gave it. */
  readonly binnedAt: number;
}

/**
 * Large immutable things by key: files (trajectory bodies) and directories (checkpoints).
 *
 * A key is one or more `[a-z0-9-]` segments joined by `/`, at most 200 characters, made from ids and never from names that
 * users chose. What a key names is whole or absent: it appears atomically, after it is on disk.
 *
 * @throws {StoreError} `store.key_invalid`, `store.blob_missing`, `store.blob_corrupt`, `store.disk_full`, `store.unavailable`
 */
export interface Blobs {
  readonly location: BlobLocation;
  /** Stores raw bytes, replacing what was there. `sizeBytes` counts what lies on disk. */
  put(key: string, source: BlobSource, options?: { signal?: AbortSignal }): Promise<{ sizeBytes: number }>;
  /** The raw bytes from `put`. */
  get(key: string): Promise<Uint8Array>;
  /** Local path of the raw bytes from `put`, or null. Valid until `remove`, of a bucket for an hour; a later `put` does not change what was opened before. */
  localFile(key: string): Promise<string | null>;
  /** Stores one JSON value, zstd-compressed. */
  putJson(key: string, value: unknown): Promise<{ sizeBytes: number }>;
  getJson(key: string): Promise<unknown>;
  /** Stores one JSON value per line, zstd-compressed while it is produced: memory holds one line. A `JsonLine` is stored as it is written. */
  putJsonLines(
    key: string,
    values: Iterable<unknown> | AsyncIterable<unknown>,
    options?: { signal?: AbortSignal },
  ): Promise<{ sizeBytes: number }>;
  /** @param read reader of a line. Default: `JSON.parse` */
  getJsonLines(key: string, read?: (line: string) => unknown): AsyncIterable<unknown>;
  /** The JSON lines as plain UTF-8 text. */
  openJsonLines(key: string): Promise<Readable>;
  /** The files of a key as they lie there, for a copy to other blobs: paths valid as those of `localFile`. Empty when there are none. */
  rawFiles(key: string): Promise<{ kind: BlobKind; path: string }[]>;
  /** Stores a file as `rawFiles` gave it. */
  putRaw(key: string, kind: BlobKind, source: BlobSource): Promise<{ sizeBytes: number }>;
  has(key: string): Promise<boolean>;
  /** False when there was none. */
  remove(key: string): Promise<boolean>;
  /** Keys of all files, in no order. @param prefix only those that start with it, e.g. `groups/`; default: all */
  listKeys(prefix?: string): Promise<string[]>;

  /** A fresh empty local directory to fill, on the same file system as the final place. */
  stageDirectory(): Promise<string>;
  /**
   * Publishes a staged directory under `key`: every file and directory fsynced, then one rename.
   * @throws {StoreError} `store.blob_exists` when the key is taken: directories are never replaced
   */
  commitDirectory(staged: string, key: string): Promise<void>;
  /** Gives up a staged directory. */
  discardDirectory(staged: string): Promise<void>;
  /**
   * Local path of a committed directory, or null. Valid until `removeDirectory`, of a bucket for an hour.
   * @param options.without Paths of files that the caller does not read, so that a bucket need not send them. They may be there all the same. Default: none.
   */
  localDirectory(key: string, options?: { readonly without?: readonly string[] }): Promise<string | null>;
  /** One file of a committed directory without the others, or null. @param path below the directory, e.g. `metrics.json` */
  readDirectoryFile(key: string, path: string): Promise<Uint8Array | null>;
  /** Files of a committed directory with their sizes, without a download; null when there is none. */
  directoryFiles(key: string): Promise<DirectoryFile[] | null>;
  /**
   * Removes one file of a committed directory, and replaces the list that names it: the only change that a directory can have. After a crash in between the
   * list still names the file, and a repeated call continues. Without effect if there is no such directory.
   */
  removeDirectoryFile(key: string, path: string, list: FileList | null): Promise<void>;
  /** False when there was none. The key vanishes at once, the bytes follow. */
  removeDirectory(key: string): Promise<boolean>;
  /** Keys of all committed directories, in no order. @param prefix as of `listKeys` */
  listDirectories(prefix?: string): Promise<string[]>;

  /** Moves an item into the bin, where only the three methods below find it. False when there was none. @param at see `BinnedItem` */
  discard(item: BlobItem, at: number): Promise<boolean>;
  listBin(): Promise<BinnedItem[]>;
  /** Moves an item back under its key. False when it is not in the bin, or the key is taken. */
  restore(item: BinnedItem): Promise<boolean>;
  /** Removes an item from the bin for good. */
  removeBinned(item: BinnedItem): Promise<void>;
  /** Removes the bytes of commits and uploads that a dead process left unfinished more than a day ago, on the clock of the blobs. */
  removeUnfinished(): Promise<void>;
  close(): Promise<void>;
}
