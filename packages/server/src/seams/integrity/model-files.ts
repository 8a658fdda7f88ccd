import { readFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { basename } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';

import { hashOf, replaceFile, stampOf } from '@trainyard/store';
import { DamagedFileError, stampFileOf } from '@trainyard/trainer';

import type { Log } from '../logging/log.ts';
import { pacedDigest } from './paced-digest.ts';

const READ_EVERY_MS = 24 * 3_600_000;

interface Known {
  readonly stamp: string;
  readonly sha256: string;
}

export interface ModelFilesOptions {
  /** File that keeps the digests across restarts. */
  readonly recordPath: string;
  /** Accepts files whose content changed. Default false. */
  readonly accepts?: boolean;
  /** Time between two background readings, default a day. */
  readonly readEveryMs?: number;
  readonly log: Log;
}

/**
 * Digests of the model files on this machine. The first reading of a file is recorded; its content must not
 * change afterwards. A file with unchanged stat data is opened at once and read again in the background.
 */
export class ModelFiles {
  readonly #options: ModelFilesOptions;
  readonly #known: Map<string, Known>;
  /** Keyed by path: the damage found, with the file's stamp at that time. */
  readonly #damaged = new Map<string, { readonly stamp: string; readonly error: DamagedFileError }>();
  readonly #end = new AbortController();
  #reading: Promise<void> = Promise.resolve();

  constructor(options: ModelFilesOptions) {
    this.#options = options;
    this.#known = readRecord(options.recordPath);
  }

  /** @throws {DamagedFileError} if the content differs from the record */
  async check(path: string): Promise<void> {
    const stamp = await stampOf(path).catch(() => null);
    // A missing file is reported by its reader.
    if (stamp === null) return;
    const damage = this.#damaged.get(path);
    if (damage?.stamp === stamp) throw damage.error;
    const known = this.#known.get(path);
    if (known === undefined || known.stamp === stamp) return;
    this.#options.log(`${path} changed since its SHA-256 was computed: comparing its content`);
    this.#compare(path, { stamp, sha256: (await hashOf(path)).sha256 });
    const found = this.#damaged.get(path);
    if (found !== undefined) throw found.error;
  }

  /**
   * Checks a copy that the service made of a model file. Removes a damaged one, which is recreated when
   * needed.
   */
  async checkCopy(path: string): Promise<void> {
    try {
      await this.check(path);
    } catch (error) {
      if (!(error instanceof DamagedFileError)) throw error;
      this.#options.log(`${path} is removed and created again`, { level: 'warn' });
      for (const file of [path, stampFileOf(path)]) await rm(file, { force: true });
      this.#damaged.delete(path);
      this.#known.delete(path);
      this.#save();
    }
  }

  /** Known damage of a file, without folder names; null if none. */
  damageOf(path: string): string | null {
    return this.#damaged.get(path)?.error.message ?? null;
  }

  /** Reads the files in the background, now and once a day. */
  watch(paths: readonly string[]): void {
    this.#reading = this.#readAll(paths).catch(() => undefined);
  }

  async close(): Promise<void> {
    this.#end.abort();
    await this.#reading;
  }

  async #readAll(paths: readonly string[]): Promise<void> {
    const { signal } = this.#end;
    for (;;) {
      for (const path of new Set(paths)) await this.#read(path);
      await pause(this.#options.readEveryMs ?? READ_EVERY_MS, undefined, { signal, ref: false });
    }
  }

  async #read(path: string): Promise<void> {
    const { signal } = this.#end;
    try {
      const stamp = await stampOf(path);
      const sha256 = await pacedDigest(path, signal);
      // A file in the middle of a write has no digest yet.
      if ((await stampOf(path)) === stamp) this.#compare(path, { stamp, sha256 });
    } catch (error) {
      signal.throwIfAborted();
      this.#options.log(`${path} cannot be compared with its SHA-256: ${(error as Error).message}`, { level: 'warn' });
    }
  }

  #compare(path: string, found: Known): void {
    const { accepts = false, log } = this.#options;
    const known = this.#known.get(path);
    if (known !== undefined && known.sha256 !== found.sha256 && !accepts) {
      const reason =
        `its SHA-256 is ${found.sha256.slice(0, 12)}…, but ${known.sha256.slice(0, 12)}… was recorded when it was first read. ` +
        'Restore the file, or start once with `--accept-models` if you replaced it';
      const error = new DamagedFileError(basename(path), reason);
      this.#damaged.set(path, { stamp: found.stamp, error });
      // The next start compares the content again, even if stat data are unchanged.
      this.#known.set(path, { ...known, stamp: '' });
      this.#save();
      log(`${path}: ${error.message}`, { level: 'error' });
      return;
    }
    this.#damaged.delete(path);
    if (known?.stamp === found.stamp && known.sha256 === found.sha256) return;
    if (known !== undefined && known.sha256 !== found.sha256) log(`${path} has new content; accepted`);
    this.#known.set(path, found);
    this.#save();
  }

  #save(): void {
    const { recordPath, log } = this.#options;
    try {
      replaceFile(recordPath, `${JSON.stringify({ files: Object.fromEntries(this.#known) }, null, 2)}\n`);
    } catch (error) {
      log(`the SHA-256 of model files cannot be kept: ${(error as Error).message}`, { level: 'warn' });
    }
  }
}

/** Reads the record. A missing or damaged one is rebuilt by the next reading. */
function readRecord(path: string): Map<string, Known> {
  try {
    const { files } = JSON.parse(readFileSync(path, 'utf8')) as { files: Record<string, Known> };
    return new Map(Object.entries(files));
  } catch {
    return new Map();
  }
}
