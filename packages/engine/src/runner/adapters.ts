import { basename, dirname } from 'node:path';
import { EngineError } from '@trainyard/backend';
import type { AdapterRef, LoadedVersion } from '@trainyard/backend';
import { checkFiles, DamagedFileError } from '@trainyard/transformer';
import type { ModelRunner, RunnerAdapter } from './model-runner.ts';

/** Time without a request after which an adapter may give way to one that is loaded ahead. */
const QUIET_MS = 60_000;

/**
 * Adapters in memory, by digest. Above the limit idle ones are dropped, first those never used by a request,
 * then the least recently used. One in use is never dropped, so requests in flight may exceed the limit.
 */
export class Adapters {
  readonly #runner: ModelRunner;
  readonly #maxBytes: number;
  readonly #now: () => number;
  /** Insertion order is the order of use. */
  readonly #loaded = new Map<string, LoadedAdapter>();
  #sizeBytes = 0;

  /** @param limits.now ms since 1970; default `Date.now` */
  constructor(runner: ModelRunner, limits: { maxAdapterBytes: number; now?: () => number }) {
    this.#runner = runner;
    this.#maxBytes = limits.maxAdapterBytes;
    this.#now = limits.now ?? Date.now;
  }

  get sizeBytes(): number {
    return this.#sizeBytes;
  }
  get count(): number {
    return this.#loaded.size;
  }

  get present(): readonly LoadedVersion[] {
    return Array.from(this.#loaded, ([digest, { since }]) => ({ digest, since }));
  }

  /** Pins an adapter until {@link unpin}. @throws {EngineError} engine.adapter_unreadable, engine.adapter_damaged */
  pin(reference: AdapterRef): RunnerAdapter {
    const loaded = this.#loaded.get(reference.digest) ?? this.#load(reference);
    loaded.numUsers++;
    loaded.lastUse = this.#now();
    loaded.isRetired = false;
    this.#loaded.delete(reference.digest);
    this.#loaded.set(reference.digest, loaded);
    this.#dropIdle();
    return loaded.adapter;
  }

  unpin(digest: string): void {
    const loaded = this.#loaded.get(digest);
    if (loaded === undefined || loaded.numUsers === 0) throw new Error(`adapter ${digest} is not in use`);
    loaded.numUsers--;
    loaded.lastUse = this.#now();
    this.#dropIdle();
  }

  /**
   * Displaces only adapters without a request in the last minute, or without any yet.
   *
   * @returns false if there is no room: the first request loads it
   * @throws {EngineError} engine.adapter_unreadable, engine.adapter_damaged
   */
  loadAhead(reference: AdapterRef): boolean {
    const { digest } = reference;
    const known = this.#loaded.get(digest);
    if (known !== undefined) {
      known.isRetired = false;
      return true;
    }
    const quiet = this.#idle().filter(([, { lastUse }]) => lastUse === null || this.#now() - lastUse >= QUIET_MS);
    const loaded = this.#load(reference);
    this.#loaded.set(digest, loaded);
    const freed = quiet.reduce((sum, [, { adapter }]) => sum + adapter.sizeBytes, 0);
    if (this.#sizeBytes - freed > this.#maxBytes) {
      this.#drop(digest, loaded);
      return false;
    }
    for (const [other, one] of quiet) if (this.#sizeBytes > this.#maxBytes) this.#drop(other, one);
    return true;
  }

  /** Drops an adapter once idle, unless it is pinned again before. */
  retire(digest: string): void {
    const loaded = this.#loaded.get(digest);
    if (loaded === undefined) return;
    loaded.isRetired = true;
    this.#dropIdle();
  }

  close(): void {
    for (const { adapter } of this.#loaded.values()) adapter.close();
    this.#loaded.clear();
    this.#sizeBytes = 0;
  }

  #load(reference: AdapterRef): LoadedAdapter {
    let adapter: RunnerAdapter;
    try {
      checkFiles(dirname(reference.path), [basename(reference.path)]);
      adapter = this.#runner.loadAdapter(reference.path);
    } catch (cause) {
      if (cause instanceof DamagedFileError) throw new EngineError('engine.adapter_damaged', cause.message, { cause });
      const reason = cause instanceof Error ? cause.message : String(cause);
      throw new EngineError('engine.adapter_unreadable', `adapter ${reference.digest} cannot be loaded: ${reason}`, {
        cause,
      });
    }
    this.#sizeBytes += adapter.sizeBytes;
    return { adapter, since: this.#now(), numUsers: 0, lastUse: null, isRetired: false };
  }

  #dropIdle(): void {
    for (const [digest, loaded] of this.#idle())
      if (loaded.isRetired || this.#sizeBytes > this.#maxBytes) this.#drop(digest, loaded);
  }

  /** Idle ones in the order in which they are dropped. */
  #idle(): [digest: string, loaded: LoadedAdapter][] {
    const idle = [...this.#loaded].filter(([, { numUsers }]) => numUsers === 0);
    return idle.toSorted(([, a], [, b]) => Number(a.lastUse !== null) - Number(b.lastUse !== null));
  }

  #drop(digest: string, { adapter }: LoadedAdapter): void {
    this.#loaded.delete(digest);
    this.#sizeBytes -= adapter.sizeBytes;
    adapter.close();
  }
}

interface LoadedAdapter {
  readonly adapter: RunnerAdapter;
  /** ms since 1970 */
  readonly since: number;
  numUsers: number;
  /** ms since 1970; null before the first request */
  lastUse: number | null;
  isRetired: boolean;
}
