import { mkdirSync, statfsSync } from 'node:fs';
import { join } from 'node:path';

import { formatMegabytes } from '@trainyard/protocol/fields';
import { checkFolderTexts, ModelFolderError, SINGLE_FILE, weightFiles } from '@trainyard/trainer';

import { ggufChoices, ggufFileOf, textFilesOf, weightFilesOf } from './choose-files.ts';
import { downloadFile } from './download-file.ts';
import { CachedRepository } from './hub-cache.ts';
import { HubClient } from './hub-client.ts';
import { HubError } from '../seams/faults/hub-error.ts';
import type { HubSettings } from './hub-settings.ts';
import type { ModelReference } from './model-reference.ts';
import type { RepositoryFile, RepositoryInfo } from './repository-info.ts';

/** Space that a download leaves free. */
const SPARE_BYTES = 64 << 20;

export interface PullProgress {
  /** Bytes of the model that are here, those of earlier downloads included. */
  readonly doneBytes: number;
  /** Bytes of the model; null until its files are known. */
  readonly totalBytes: number | null;
}

export interface PullOptions {
  readonly settings: HubSettings;
  /**
   * True: the newest commit of a branch. False: the commit in the cache, if there is one, so that a model does not
   * change between two starts; if the hub does not answer, a model that is whole in the cache is enough.
   */
  readonly refreshes: boolean;
  readonly signal?: AbortSignal;
  readonly onProgress?: (progress: PullProgress) => void;
}

export interface PulledModel {
  /** A folder in the Hugging Face format, or a GGUF file, in the cache of the hub. */
  readonly path: string;
  readonly commit: string;
  readonly sizeBytes: number;
  /** Bytes that were downloaded now. */
  readonly downloadedBytes: number;
}

/**
 * Brings a model from a hub into the cache that all its clients share, and downloads only missing files. Small files
 * come first, so that a model that cannot be used is refused before its weights. A pull that was killed continues.
 * @throws {HubError}
 */
export async function pullModel(reference: ModelReference, options: PullOptions): Promise<PulledModel> {
  const { settings, refreshes, signal = NEVER } = options;
  const { repository, revision } = reference;
  const cache = new CachedRepository(settings.cacheDirectory, repository);
  const client = new HubClient(settings);
  const known = refreshes && !settings.isOffline ? null : cache.commitOf(revision);
  let info: RepositoryInfo;
  try {
    info = await client.info({ repository, revision: known ?? revision }, signal);
  } catch (error) {
    const cached = known === null || !(error instanceof HubError) ? null : cachedModel(reference, cache, known);
    if (cached === null) throw error;
    return cached;
  }
  const pull = new Pull({
    reference,
    client,
    cache,
    info,
    signal,
    onProgress: options.onProgress ?? (() => undefined),
  });
  const pulled = await (reference.file.kind === 'folder' ? pull.folder() : pull.ggufFile());
  // Last: other clients of the cache take the commit of a record as complete.
  cache.record(revision, info.commit);
  return pulled;
}

const NEVER = new AbortController().signal;

/** A model that is whole in the cache, without asking the hub; null if it is not. */
function cachedModel(reference: ModelReference, cache: CachedRepository, commit: string): PulledModel | null {
  const snapshot = cache.snapshot(commit);
  const none = { commit, downloadedBytes: 0 };
  try {
    const info = { commit, files: cache.snapshotFiles(commit) };
    if (reference.file.kind !== 'folder') {
      const { path, sizeBytes } = ggufFileOf(info, reference);
      return { ...none, path: join(snapshot, path), sizeBytes };
    }
    checkFolderTexts(snapshot);
    const files = [...textFilesOf(info, reference), ...weightFilesOf(info, reference, weightFiles(snapshot))];
    return { ...none, path: snapshot, sizeBytes: sumOf(files) };
  } catch (error) {
    if (error instanceof HubError || error instanceof ModelFolderError) return null;
    throw error;
  }
}

interface PullParts {
  readonly reference: ModelReference;
  readonly client: HubClient;
  readonly cache: CachedRepository;
  readonly info: RepositoryInfo;
  readonly signal: AbortSignal;
  readonly onProgress: (progress: PullProgress) => void;
}

/** One download of a model at a commit. */
class Pull {
  readonly #parts: PullParts;
  readonly #doneBytes = new Map<RepositoryFile, number>();
  #totalBytes: number | null = null;
  #downloadedBytes = 0;

  constructor(parts: PullParts) {
    this.#parts = parts;
  }

  async folder(): Promise<PulledModel> {
    const { info, reference } = this.#parts;
    const texts = textFilesOf(info, reference);
    await this.#fetch(texts);
    const weights = weightFilesOf(info, reference, this.#checked());
    this.#totalBytes = sumOf([...texts, ...weights]);
    await this.#fetch(weights);
    return this.#pulled(this.#snapshot);
  }

  async ggufFile(): Promise<PulledModel> {
    const { info, reference } = this.#parts;
    const file = ggufFileOf(info, reference);
    this.#totalBytes = file.sizeBytes;
    await this.#fetch([file]);
    return this.#pulled(join(this.#snapshot, file.path));
  }

  /** Refuses a model that no start would serve. @returns names of its files of weights. @throws {HubError} */
  #checked(): readonly string[] {
    const { reference, info } = this.#parts;
    try {
      checkFolderTexts(this.#snapshot);
      return info.files.has(SINGLE_FILE) ? [SINGLE_FILE] : weightFiles(this.#snapshot);
    } catch (error) {
      if (!(error instanceof ModelFolderError)) throw error;
      const choices = ggufChoices(info, reference);
      const others = choices === null ? '' : `. The repository also has ${choices}`;
      throw new HubError('hub.model_unusable', `${reference.repository} cannot be served: ${error.message}${others}`, {
        cause: error,
      });
    }
  }

  async #fetch(files: readonly RepositoryFile[]): Promise<void> {
    const { cache, info, client, reference, signal } = this.#parts;
    const missing = files.filter((file) => !cache.hasBlob(file));
    this.#requireSpace(missing);
    for (const file of files)
      this.#doneBytes.set(file, cache.hasBlob(file) ? file.sizeBytes : cache.partialBytes(file));
    const before = sumOf(missing) - missing.reduce((sum, file) => sum + cache.partialBytes(file), 0);
    for (const file of files) {
      signal.throwIfAborted();
      const { repository } = reference;
      const onBytes = (bytes: number) => this.#report(file, bytes);
      await downloadFile(file, { client, cache, repository, commit: info.commit, signal, onBytes });
      cache.link(file, info.commit);
    }
    this.#downloadedBytes += before;
  }

  #report(file: RepositoryFile, bytes: number): void {
    this.#doneBytes.set(file, bytes);
    const doneBytes = [...this.#doneBytes.values()].reduce((sum, done) => sum + done, 0);
    this.#parts.onProgress({ doneBytes, totalBytes: this.#totalBytes });
  }

  /** @throws {HubError} `hub.disk_full` */
  #requireSpace(missing: readonly RepositoryFile[]): void {
    const { cache, reference } = this.#parts;
    const needed = missing.reduce((sum, file) => sum + file.sizeBytes - cache.partialBytes(file), SPARE_BYTES);
    if (missing.length === 0) return;
    mkdirSync(cache.directory, { recursive: true });
    const { bavail, bsize } = statfsSync(cache.directory);
    const free = bavail * bsize;
    if (free >= needed) return;
    throw new HubError(
      'hub.disk_full',
      `${reference.repository} needs ${formatMegabytes(needed, 0)} more, but the disk of the cache has ${formatMegabytes(free, 0)} free: free some space, or set HF_HUB_CACHE to a folder on another disk`,
    );
  }

  get #snapshot(): string {
    return this.#parts.cache.snapshot(this.#parts.info.commit);
  }

  #pulled(path: string): PulledModel {
    const { info } = this.#parts;
    return {
      path,
      commit: info.commit,
      sizeBytes: sumOf([...this.#doneBytes.keys()]),
      downloadedBytes: this.#downloadedBytes,
    };
  }
}

function sumOf(files: readonly Pick<RepositoryFile, 'sizeBytes'>[]): number {
  return files.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
}
