import type { Readable } from 'node:stream';

/** Place of the blobs, for another local thread or process to open. Contains no credentials. */
export type BlobLocation =
  | { readonly kind: 'folder'; readonly root: string }
  | {
      readonly kind: 's3';
      /** `https://HOST[:PORT]/BUCKET[/PREFIX]` */
      readonly url: string;
      readonly region: string;
      /** Local folder to cache reads and writes; processes may share it. */
      readonly cacheDirectory: string;
      readonly cacheBytes: number;
    };

/** Encoding of a stored file: raw bytes, one JSON value, or one per line, the last two compressed. */
export type BlobKind = 'bin' | 'json.zst' | 'jsonl.zst';

/** Bytes to store, whole or as a stream. */
export type BlobSource = Uint8Array | AsyncIterable<Uint8Array> | Iterable<Uint8Array>;

/** A file of a directory, by its path below it. */
export interface DirectoryFile {
  readonly path: string;
  readonly sizeBytes: number;
}

export interface FileList {
  readonly path: string;
  readonly text: string;
}

/** A blob or a directory, by its key. */
export interface BlobItem {
  readonly kind: 'blob' | 'directory';
  readonly key: string;
}

export interface BinnedItem extends BlobItem {
  /** Time of the move, milliseconds since the epoch, as passed to `discard`. */
  readonly binnedAt: number;
}

/**
 * Large immutable values by key: files (trajectory bodies) and directories (checkpoints).
 *
 * A key is one or more `[a-z0-9-]` segments joined by `/`, at most 200 characters, made from ids and never
 * from names that users chose. A value is whole or absent: it appears atomically, after it is on disk.
 *
 * @throws {StoreError} `store.key_invalid`, `store.blob_missing`, `store.blob_corrupt`, `store.disk_full`,
 *   `store.unavailable`
 */
export interface Blobs {
  readonly location: BlobLocation;
  /** Stores raw bytes, replacing any before. `sizeBytes` is their size on disk. */
  put(key: string, source: BlobSource, options?: { signal?: AbortSignal }): Promise<{ sizeBytes: number }>;
  /** Returns the raw bytes from `put`. */
  get(key: string): Promise<Uint8Array>;
  /**
   * Local path of the raw bytes from `put`, or null. Valid until `remove`, for a bucket for an hour. A later
   * `put` does not change files that are open.
   */
  localFile(key: string): Promise<string | null>;
  /** Stores one JSON value, zstd-compressed. */
  putJson(key: string, value: unknown): Promise<{ sizeBytes: number }>;
  getJson(key: string): Promise<unknown>;
  /**
   * Stores one JSON value per line, zstd-compressed as it is produced: memory holds one line. A `JsonLine` is
   * stored unchanged.
   */
  putJsonLines(
    key: string,
    values: Iterable<unknown> | AsyncIterable<unknown>,
    options?: { signal?: AbortSignal },
  ): Promise<{ sizeBytes: number }>;
  /** @param read parses a line. Default: `JSON.parse` */
  getJsonLines(key: string, read?: (line: string) => unknown): AsyncIterable<unknown>;
  /** The JSON lines as plain UTF-8 text. */
  openJsonLines(key: string): Promise<Readable>;
  /**
   * Files of a key as stored, to copy to other blobs. Paths are valid as those of `localFile`. Empty if there
   * are none.
   */
  rawFiles(key: string): Promise<{ kind: BlobKind; path: string }[]>;
  /** Stores a file from `rawFiles`. */
  putRaw(key: string, kind: BlobKind, source: BlobSource): Promise<{ sizeBytes: number }>;
  has(key: string): Promise<boolean>;
  /** Returns false if there was none. */
  remove(key: string): Promise<boolean>;
  /**
   * Keys of all files, unordered. @param prefix only those that start with it, e.g. `groups/`; default: all
   */
  listKeys(prefix?: string): Promise<string[]>;

  /** Returns a fresh empty local directory to fill, on the file system of the final place. */
  stageDirectory(): Promise<string>;
  /**
   * Publishes a staged directory under `key`: fsync of every file and directory, then one rename.
   * @throws {StoreError} `store.blob_exists` if the key is taken: directories are never replaced
   */
  commitDirectory(staged: string, key: string): Promise<void>;
  discardDirectory(staged: string): Promise<void>;
  /**
   * Local path of a committed directory, or null. Valid until `removeDirectory`, for a bucket for an hour.
   * @param options.without paths of files that the caller does not read, so that a bucket need not send them.
   *   They may exist all the same. Default: none.
   */
  localDirectory(key: string, options?: { readonly without?: readonly string[] }): Promise<string | null>;
  /**
   * Reads one file of a committed directory without the others, or null. @param path below the directory,
   * e.g. `metrics.json`
   */
  readDirectoryFile(key: string, path: string): Promise<Uint8Array | null>;
  /** Files of a committed directory with their sizes, without a download; null if there is none. */
  directoryFiles(key: string): Promise<DirectoryFile[] | null>;
  /**
   * Removes one file of a committed directory and replaces the list that names it: the only change a
   * directory can have. After a crash in between, the list still names the file, and a repeated call
   * continues. Has no effect without such a directory.
   */
  removeDirectoryFile(key: string, path: string, list: FileList | null): Promise<void>;
  /** Returns false if there was none. The key vanishes at once, the bytes follow. */
  removeDirectory(key: string): Promise<boolean>;
  /** Keys of all committed directories, unordered. @param prefix as for `listKeys` */
  listDirectories(prefix?: string): Promise<string[]>;

  /**
   * Moves an item into the bin, visible only to the three methods below. Returns false if there was none.
   * @param at see `BinnedItem`
   */
  discard(item: BlobItem, at: number): Promise<boolean>;
  listBin(): Promise<BinnedItem[]>;
  /** Moves an item back under its key. Returns false if it is not in the bin, or the key is taken. */
  restore(item: BinnedItem): Promise<boolean>;
  /** Permanently removes an item from the bin. */
  removeBinned(item: BinnedItem): Promise<void>;
  /**
   * Removes the bytes of commits and uploads that a dead process left unfinished more than a day ago, on the
   * clock of the blobs.
   */
  removeUnfinished(): Promise<void>;
  close(): Promise<void>;
}
