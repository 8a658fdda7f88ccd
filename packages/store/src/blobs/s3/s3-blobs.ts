import { createHash, randomUUID } from 'node:crypto';
import { mkdir, open, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { BinnedItem, BlobItem, BlobLocation, Blobs, DirectoryFile, FileList } from '../../contract/blobs.ts';
import { StoreError } from '../../contract/errors.ts';
import { checkBlobKey } from '../blob-key.ts';
import { DigestCache } from '../digest-cache.ts';
import { writeWhole } from '../durable-file.ts';
import { EncodedBlobs, keyOfFile } from '../encoded-blobs.ts';
import { filesBelow, hashOf } from '../file-hash.ts';
import { directoryTaken, fileFault } from '../file-fault.ts';
import { LocalCache } from './local-cache.ts';
import { type BucketRequest, inParallel, S3Bucket, type S3Credentials } from './s3-bucket.ts';

export type S3Location = Extract<BlobLocation, { kind: 's3' }>;

/** Files of a directory. Written last and only if there is none; it makes the directory visible. */
interface Manifest {
  /** folder of this commit below the directory's key, and name of the directory in the cache */
  readonly commit: string;
  readonly files: readonly { readonly path: string; readonly sizeBytes: number; readonly sha256: string }[];
}

const FILES = 'files/';
const DIRECTORIES = 'directories/';
const MANIFEST = '.dir/manifest.json';
const BIN = 'bin/';
const DAY_MS = 24 * 3_600_000;
/** Time for which a directory is assumed to exist still: every request to an adapter asks. */
const REMEMBERED_MS = 5_000;

/**
 * `Blobs` in an S3 bucket: `files/<key>.<kind>`, `directories/<key>.dir/<commit>/<path>` and
 * `…/manifest.json`. Everything read or written is in a local cache, with a SHA-256 that is checked at
 * arrival and again if the cached file changed; a damaged copy is downloaded again. The bin holds
 * `bin/<ms>/files/<key>.<kind>` and, for a directory, its manifest `bin/<ms>/directories/<key>.dir`; the
 * objects of its commit do not move.
 *
 * Paths are valid for at least an hour after they were last requested.
 */
export class S3Blobs extends EncodedBlobs implements Blobs {
  readonly location: S3Location;
  readonly #bucket: S3Bucket;
  readonly #cache: LocalCache;
  readonly #abandonedAfterMs: number;
  /** Downloads in progress, by name in the cache. */
  readonly #coming = new Map<string, Promise<string>>();
  readonly #seen = new Map<string, { commit: string; at: number }>();
  readonly #digests = new DigestCache();
  readonly #onRepair: (line: string) => void;

  /**
   * @param options.abandonedAfterMs age at which a commit without a manifest counts as left by a dead
   *   process; default a day
   * @param options.cacheKeepsMs validity of paths; default an hour
   * @throws {StoreError} `store.unavailable` if the bucket is unreachable or refuses the credentials, or the
   *   cache cannot be used
   */
  static async open(
    location: S3Location,
    credentials: S3Credentials,
    options: {
      readonly abandonedAfterMs?: number;
      readonly cacheKeepsMs?: number;
      readonly onRequest?: (request: BucketRequest) => void;
      /** Receives a line per damaged copy in the cache. Default: none. */
      readonly onRepair?: (line: string) => void;
    } = {},
  ): Promise<S3Blobs> {
    const { abandonedAfterMs = DAY_MS, cacheKeepsMs, onRequest, onRepair = () => undefined } = options;
    const bucket = new S3Bucket({ ...location, credentials, ...(onRequest && { onRequest }) });
    await bucket.check();
    const { cacheDirectory: root, cacheBytes: maxBytes } = location;
    const keepsMs = cacheKeepsMs === undefined ? {} : { keepsMs: cacheKeepsMs };
    const cache = await LocalCache.open({ root, maxBytes, ...keepsMs });
    return new S3Blobs(location, bucket, cache, { abandonedAfterMs, onRepair });
  }

  private constructor(
    location: S3Location,
    bucket: S3Bucket,
    cache: LocalCache,
    { abandonedAfterMs, onRepair }: { abandonedAfterMs: number; onRepair: (line: string) => void },
  ) {
    super();
    this.location = location;
    this.#bucket = bucket;
    this.#cache = cache;
    this.#abandonedAfterMs = abandonedAfterMs;
    this.#onRepair = onRepair;
  }

  protected async writeFile(
    name: string,
    chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
    signal?: AbortSignal,
  ): Promise<{ sizeBytes: number }> {
    const staged = this.#cache.staging.freshPath();
    try {
      const written = await writeHashed(staged, chunks, signal);
      await this.#bucket.putFile(`${FILES}${name}`, staged, written, signal);
      await this.#cache.add(written.sha256, staged);
      return { sizeBytes: written.sizeBytes };
    } catch (error) {
      throw fileFault(error, `blob ${keyOfFile(name)}`);
    } finally {
      await rm(staged, { force: true });
    }
  }

  protected async localPath(name: string): Promise<string | null> {
    const object = await this.#bucket.head(`${FILES}${name}`);
    if (object === null) return null;
    const { sha256 } = object;
    const cached = sha256 === null ? null : await this.#cached(sha256, [{ path: '', sha256 }]);
    if (cached !== null) return cached;
    const staged = this.#cache.staging.freshPath();
    try {
      const found = await this.#bucket.download(`${FILES}${name}`, staged, object);
      return found === null ? null : await this.#cache.add(found.sha256, staged);
    } catch (error) {
      throw fileFault(error, `blob ${keyOfFile(name)}`);
    } finally {
      await rm(staged, { force: true });
    }
  }

  protected async hasFile(name: string): Promise<boolean> {
    return (await this.#bucket.head(`${FILES}${name}`)) !== null;
  }

  protected async removeFile(name: string): Promise<boolean> {
    if (!(await this.hasFile(name))) return false;
    await this.#bucket.delete(`${FILES}${name}`);
    return true;
  }

  async listKeys(prefix = ''): Promise<string[]> {
    const keys = new Set<string>();
    for await (const { name } of this.#bucket.list(`${FILES}${prefix}`)) keys.add(keyOfFile(name.slice(FILES.length)));
    return [...keys];
  }

  async stageDirectory(): Promise<string> {
    const path = this.#cache.staging.freshPath();
    try {
      await mkdir(path, { mode: 0o700 });
    } catch (error) {
      throw fileFault(error, 'staging a directory');
    }
    return path;
  }

  async commitDirectory(staged: string, key: string): Promise<void> {
    const directory = directoryName(key);
    this.#cache.staging.check(staged);
    const commit = randomUUID();
    if ((await this.#manifest(key)) !== null) throw directoryTaken(key);
    try {
      const files = await inParallel(await filesBelow(staged), async (path) => {
        const file = { path, ...(await hashOf(join(staged, path))) };
        await this.#bucket.putFile(`${directory}/${commit}/${path}`, join(staged, path), file);
        return file;
      });
      const manifest: Manifest = { commit, files };
      const bytes = Buffer.from(JSON.stringify(manifest));
      const isMine = await this.#bucket.put(manifestName(key), bytes, { isNew: true });
      // After a lost response, the retry meets the manifest of the first attempt.
      if (!isMine && (await this.#manifest(key))?.commit !== commit) throw directoryTaken(key);
      this.#seen.set(key, { commit, at: Date.now() });
      await this.#cache.add(commit, staged);
    } catch (error) {
      if ((await this.#manifest(key).catch(() => null))?.commit !== commit) await this.#removeCommit(key, commit);
      throw fileFault(error, `directory ${key}`);
    }
  }

  async discardDirectory(staged: string): Promise<void> {
    this.#cache.staging.check(staged);
    await rm(staged, { recursive: true, force: true });
  }

  async localDirectory(
    key: string,
    { without = [] }: { readonly without?: readonly string[] } = {},
  ): Promise<string | null> {
    checkBlobKey(key);
    const seen = this.#seen.get(key);
    if (seen !== undefined && Date.now() - seen.at < REMEMBERED_MS) {
      const cached = (await this.#cache.find(seen.commit)) ?? (await this.#cache.find(partName(seen.commit, without)));
      if (cached !== null) return cached;
    }
    for (let manifest = await this.#manifest(key); manifest !== null;) {
      const { commit, files } = manifest;
      const wanted = files.filter((file) => !without.includes(file.path));
      const name = wanted.length === files.length ? commit : partName(commit, without);
      try {
        const path =
          (await this.#cached(commit, files)) ??
          (name === commit ? null : await this.#cached(name, wanted)) ??
          (await this.#once(name, () => this.#fetchDirectory(key, { commit, files: wanted }, name)));
        this.#seen.set(key, { commit, at: Date.now() });
        return path;
      } catch (error) {
        // Another commit replaced it during the download.
        const current = await this.#manifest(key);
        if (current?.commit === commit) throw error;
        manifest = current;
      }
    }
    this.#seen.delete(key);
    return null;
  }

  async removeDirectory(key: string): Promise<boolean> {
    const manifest = await this.#manifest(key);
    this.#seen.delete(key);
    if (manifest === null) return false;
    await this.#bucket.delete(manifestName(key));
    await this.#removeCommit(key, manifest.commit);
    await this.#cache.remove(manifest.commit);
    return true;
  }

  async readDirectoryFile(key: string, path: string): Promise<Uint8Array | null> {
    const manifest = await this.#manifest(key);
    if (manifest === null) return null;
    return await this.#bucket.get(`${directoryName(key)}/${manifest.commit}/${path}`);
  }

  async directoryFiles(key: string): Promise<DirectoryFile[] | null> {
    const manifest = await this.#manifest(key);
    return manifest === null ? null : manifest.files.map(({ path, sizeBytes }) => ({ path, sizeBytes }));
  }

  /** Replaces the commit by a new one, so readers of either see whole files. */
  async removeDirectoryFile(key: string, path: string, list: FileList | null): Promise<void> {
    const former = await this.#manifest(key);
    if (former === null || !former.files.some((file) => file.path === path)) return;
    const directory = directoryName(key);
    const commit = randomUUID();
    const kept = former.files.filter((file) => file.path !== path && file.path !== list?.path);
    const files = [...kept];
    try {
      await inParallel(kept, async (file) => {
        const source = `${directory}/${former.commit}/${file.path}`;
        if (!(await this.#bucket.copy(source, `${directory}/${commit}/${file.path}`)))
          throw new StoreError('store.blob_corrupt', `directory ${key}: ${file.path} is missing`);
      });
      if (list !== null) {
        const bytes = Buffer.from(list.text);
        await this.#bucket.put(`${directory}/${commit}/${list.path}`, bytes);
        files.push({ path: list.path, sizeBytes: bytes.byteLength, sha256: sha256Of(bytes) });
      }
      // Removed meanwhile, or changed by another process.
      if ((await this.#manifest(key))?.commit !== former.commit) return await this.#removeCommit(key, commit);
      const manifest: Manifest = { commit, files };
      await this.#bucket.put(manifestName(key), Buffer.from(JSON.stringify(manifest)));
    } catch (error) {
      if ((await this.#manifest(key).catch(() => null))?.commit !== commit)
        await this.#removeCommit(key, commit).catch(() => undefined);
      throw fileFault(error, `directory ${key}`);
    }
    this.#seen.delete(key);
    await this.#removeCommit(key, former.commit);
  }

  async listDirectories(prefix = ''): Promise<string[]> {
    const keys = new Set<string>();
    for await (const { name } of this.#bucket.list(`${DIRECTORIES}${prefix}`))
      if (name.endsWith(MANIFEST)) keys.add(name.slice(DIRECTORIES.length, -MANIFEST.length));
    return [...keys];
  }

  async listBin(): Promise<BinnedItem[]> {
    const items = new Map<string, BinnedItem>();
    for await (const { name } of this.#bucket.list(BIN)) {
      const [, at = '', folder, item = ''] = /^bin\/(\d+)\/(files|directories)\/(.+)$/.exec(name) ?? [];
      if (item === '') continue;
      const kind = folder === 'files' ? 'blob' : 'directory';
      const key = keyOfFile(item);
      items.set(`${at} ${kind} ${key}`, { kind, key, binnedAt: Number(at) });
    }
    return [...items.values()];
  }

  protected async moveToBin(kind: BlobItem['kind'], name: string, at: number): Promise<boolean> {
    if (kind === 'directory') this.#seen.delete(name);
    return await this.#bucket.move(nameOf(kind, name), binName(kind, name, at));
  }

  protected async moveFromBin(kind: BlobItem['kind'], name: string, at: number): Promise<boolean> {
    if ((await this.#bucket.head(nameOf(kind, name))) !== null) return false;
    return await this.#bucket.move(binName(kind, name, at), nameOf(kind, name));
  }

  protected async removeFromBin(kind: BlobItem['kind'], name: string, at: number): Promise<void> {
    const binned = binName(kind, name, at);
    const manifest = kind === 'directory' ? await this.#manifestAt(binned) : null;
    await this.#bucket.delete(binned);
    if (manifest !== null && (await this.#manifest(name))?.commit !== manifest.commit)
      await this.#removeCommit(name, manifest.commit);
  }

  /**
   * Removes commits without a manifest, here or in the bin. Their age is on the bucket's clock, because this
   * machine's may be wrong.
   */
  async removeUnfinished(): Promise<void> {
    const commits = new Map<string, { key: string; commit: string; modifiedAt: Date }>();
    for await (const { name, modifiedAt } of this.#bucket.list(DIRECTORIES)) {
      const [key, rest] = splitOnce(name.slice(DIRECTORIES.length), '.dir/');
      const [commit, path] = splitOnce(rest, '/');
      if (path !== '') commits.set(`${key}/${commit}`, { key, commit, modifiedAt });
    }
    const old = this.#bucket.now - this.#abandonedAfterMs;
    const aged = [...commits.values()].filter(({ modifiedAt }) => modifiedAt.getTime() <= old);
    if (aged.length === 0) return;
    const binned = new Set<string>();
    for (const { kind, key, binnedAt } of await this.listBin()) {
      const manifest = kind === 'directory' ? await this.#manifestAt(binName(kind, key, binnedAt)) : null;
      if (manifest !== null) binned.add(manifest.commit);
    }
    for (const { key, commit } of aged)
      if (!binned.has(commit) && (await this.#manifest(key))?.commit !== commit) await this.#removeCommit(key, commit);
  }

  async close(): Promise<void> {
    await this.#cache.close();
  }

  async #manifest(key: string): Promise<Manifest | null> {
    return await this.#manifestAt(manifestName(key));
  }

  async #manifestAt(name: string): Promise<Manifest | null> {
    const bytes = await this.#bucket.get(name);
    return bytes === null ? null : (JSON.parse(bytes.toString('utf8')) as Manifest);
  }

  /** @param name in the cache */
  async #fetchDirectory(key: string, { commit, files }: Manifest, name: string): Promise<string> {
    const staged = await this.stageDirectory();
    try {
      await inParallel(files, async ({ path, sizeBytes, sha256 }) => {
        const target = join(staged, path);
        await mkdir(dirname(target), { recursive: true, mode: 0o700 });
        const found = await this.#bucket.download(`${directoryName(key)}/${commit}/${path}`, target);
        if (found?.sha256 !== sha256 || found.sizeBytes !== sizeBytes)
          throw new StoreError('store.blob_corrupt', `directory ${key}: ${path} is corrupt`);
      });
      return await this.#cache.add(name, staged);
    } catch (error) {
      throw fileFault(error, `directory ${key}`);
    } finally {
      await rm(staged, { recursive: true, force: true });
    }
  }

  /** Returns the cached copy if its files have these digests. Removes a damaged copy. */
  async #cached(
    name: string,
    files: readonly { readonly path: string; readonly sha256: string }[],
  ): Promise<string | null> {
    const path = await this.#cache.find(name);
    if (path === null) return null;
    for (const file of files) {
      const found = await this.#digests.of(join(path, file.path)).catch(() => null);
      if (found === file.sha256) continue;
      this.#onRepair(`Cached copy of ${file.path || name} is corrupt; downloading it again`);
      await this.#cache.remove(name);
      return null;
    }
    return path;
  }

  async #removeCommit(key: string, commit: string): Promise<void> {
    for await (const { name } of this.#bucket.list(`${directoryName(key)}/${commit}/`)) await this.#bucket.delete(name);
  }

  /** Shares one download among all callers. */
  async #once(name: string, fetchIt: () => Promise<string>): Promise<string> {
    let coming = this.#coming.get(name);
    if (coming === undefined) {
      coming = fetchIt().finally(() => this.#coming.delete(name));
      this.#coming.set(name, coming);
    }
    return await coming;
  }
}

function sha256Of(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

function directoryName(key: string): string {
  checkBlobKey(key);
  return `${DIRECTORIES}${key}.dir`;
}

/** Cached name of a copy that lacks files. It expires by age, like copies of other processes. */
function partName(commit: string, without: readonly string[]): string {
  return `${commit}-part-${sha256Of(Buffer.from(JSON.stringify(without.toSorted()))).slice(0, 16)}`;
}

function manifestName(key: string): string {
  checkBlobKey(key);
  return `${DIRECTORIES}${key}${MANIFEST}`;
}

const nameOf = (kind: BlobItem['kind'], name: string): string =>
  kind === 'blob' ? `${FILES}${name}` : manifestName(name);

const binName = (kind: BlobItem['kind'], name: string, at: number): string =>
  kind === 'blob' ? `${BIN}${at}/files/${name}` : `${BIN}${at}/directories/${name}.dir`;

function splitOnce(text: string, separator: string): [string, string] {
  const at = text.indexOf(separator);
  return at === -1 ? [text, ''] : [text.slice(0, at), text.slice(at + separator.length)];
}

async function writeHashed(
  path: string,
  chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  signal?: AbortSignal,
): Promise<{ sizeBytes: number; sha256: string }> {
  const hash = createHash('sha256');
  let sizeBytes = 0;
  await using file = await open(path, 'wx', 0o600);
  for await (const chunk of chunks) {
    signal?.throwIfAborted();
    hash.update(chunk);
    await writeWhole(file, chunk);
    sizeBytes += chunk.byteLength;
  }
  signal?.throwIfAborted();
  return { sizeBytes, sha256: hash.digest('hex') };
}
