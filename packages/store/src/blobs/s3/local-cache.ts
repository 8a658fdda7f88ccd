import { readdir, rename, rm, stat, utimes } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { syncPath, syncTree } from '../durable-file.ts';
import { exists, fileFault, isMissing, isTaken } from '../file-fault.ts';
import { makeFolders } from '../../folders/make-folders.ts';
import { StagingArea } from '../staging-area.ts';

export interface LocalCacheOptions {
  readonly root: string;
  /** Maximum bytes to keep. The cache is larger while all of it was used within the last hour. */
  readonly maxBytes: number;
  /** Default: an hour. */
  readonly keepsMs?: number;
}

const HOUR_MS = 3_600_000;
/** Minimum time between two records of a use. */
const TOUCH_MS = 60_000;

/**
 * Local cache of files and folders that can be fetched again, under names that never change meaning. Several
 * processes may share one. Evicts the least recently used entry first, but none used within an hour: callers
 * have that long to open a path.
 */
export class LocalCache {
  readonly staging: StagingArea;
  readonly #kept: string;
  readonly #maxBytes: number;
  readonly #keepsMs: number;
  readonly #touchedAt = new Map<string, number>();
  /** Size known to this process: counted at its first addition, and whenever the limit is exceeded. */
  #bytes: number | null = null;

  static async open({ root, maxBytes, keepsMs = HOUR_MS }: LocalCacheOptions): Promise<LocalCache> {
    const path = resolve(root);
    try {
      const kept = join(path, 'kept');
      makeFolders(kept, 0o700);
      const staging = await StagingArea.open(join(path, 'staging'));
      return new LocalCache({ staging, kept, maxBytes, keepsMs });
    } catch (error) {
      throw fileFault(error, `blob cache ${path}`);
    }
  }

  private constructor(options: { staging: StagingArea; kept: string; maxBytes: number; keepsMs: number }) {
    this.staging = options.staging;
    this.#kept = options.kept;
    this.#maxBytes = options.maxBytes;
    this.#keepsMs = options.keepsMs;
  }

  /** Returns the path of an entry, or null. */
  async find(name: string): Promise<string | null> {
    const path = join(this.#kept, name);
    const now = Date.now();
    if (now - (this.#touchedAt.get(name) ?? 0) < TOUCH_MS) {
      if (await exists(path)) return path;
      this.#touchedAt.delete(name);
      return null;
    }
    try {
      await utimes(path, now / 1000, now / 1000);
    } catch (error) {
      if (isMissing(error)) return null;
      throw fileFault(error, `blob cache ${name}`);
    }
    this.#touchedAt.set(name, now);
    return path;
  }

  /**
   * Takes over a staged file or folder. An existing entry stays, because it is the same. @returns its path
   */
  async add(name: string, staged: string): Promise<string> {
    const path = join(this.#kept, name);
    try {
      const sizeBytes = await sizeOf(staged);
      try {
        // Entries are not verified later, so after a power cut a name must not exist without its content.
        await syncEntry(staged);
        await rename(staged, path);
        this.#bytes = this.#bytes === null ? bytesOf(await this.#entries()) : this.#bytes + sizeBytes;
      } catch (error) {
        if (!isTaken(error)) throw error;
        await rm(staged, { recursive: true, force: true });
      }
      this.#touchedAt.delete(name);
      await this.find(name);
      if (this.#bytes !== null && this.#bytes > this.#maxBytes) await this.#evict();
      return path;
    } catch (error) {
      throw fileFault(error, `blob cache ${name}`);
    }
  }

  async remove(name: string): Promise<void> {
    const doomed = this.staging.freshPath();
    this.#touchedAt.delete(name);
    try {
      await rename(join(this.#kept, name), doomed);
    } catch (error) {
      if (isMissing(error)) return;
      throw fileFault(error, `blob cache ${name}`);
    }
    if (this.#bytes !== null) this.#bytes -= await sizeOf(doomed);
    await rm(doomed, { recursive: true, force: true });
  }

  async close(): Promise<void> {
    await this.staging.close();
  }

  async #evict(): Promise<void> {
    const entries = (await this.#entries()).toSorted((a, b) => a.usedAt - b.usedAt);
    this.#bytes = bytesOf(entries);
    for (const { name, usedAt } of entries) {
      if (this.#bytes <= this.#maxBytes || Date.now() - usedAt < this.#keepsMs) return;
      await this.remove(name);
    }
  }

  async #entries(): Promise<{ name: string; sizeBytes: number; usedAt: number }[]> {
    const entries = [];
    for (const name of await readdir(this.#kept)) {
      const path = join(this.#kept, name);
      try {
        entries.push({ name, sizeBytes: await sizeOf(path), usedAt: (await stat(path)).mtimeMs });
      } catch (error) {
        // Another process evicts, too.
        if (!isMissing(error)) throw error;
      }
    }
    return entries;
  }
}

const bytesOf = (entries: readonly { readonly sizeBytes: number }[]): number =>
  entries.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);

async function syncEntry(path: string): Promise<void> {
  await ((await stat(path)).isDirectory() ? syncTree(path) : syncPath(path));
}

async function sizeOf(path: string): Promise<number> {
  const found = await stat(path);
  if (!found.isDirectory()) return found.size;
  let sum = 0;
  for (const name of await readdir(path)) sum += await sizeOf(join(path, name));
  return sum;
}
