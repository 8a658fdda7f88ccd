import { basename, dirname } from 'node:path';
import { EngineError } from '@trainyard/backend';
import type { AdapterRef } from '@trainyard/backend';
import { checkFiles, DamagedFileError } from '@trainyard/transformer';
import type { ModelRunner, RunnerAdapter } from './model-runner.ts';

/**
 * Adapters in memory, by digest: read on first use; of idle ones those dropped that are retired, and the least recently used when all together exceed the
 * limit. One in use is never dropped, so requests in flight may exceed it.
 */
export class Adapters {
  readonly #runner: ModelRunner;
  readonly #maxBytes: number;
  /** Insertion order is the order of use. */
  readonly #loaded = new Map<string, LoadedAdapter>();
  #sizeBytes = 0;

  constructor(runner: ModelRunner, limits: { maxAdapterBytes: number }) {
    this.#runner = runner;
    this.#maxBytes = limits.maxAdapterBytes;
  }

  get sizeBytes(): number {
    return this.#sizeBytes;
  }
  get count(): number {
    return this.#loaded.size;
  }

  /** Pins an adapter until {@link unpin}. @throws {EngineError} engine.adapter_unreadable, engine.adapter_damaged */
  pin(reference: AdapterRef): RunnerAdapter {
    const loaded = this.#loaded.get(reference.digest) ?? this.#load(reference);
    loaded.numUsers++;
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
    this.#dropIdle();
  }

  /** Drops an adapter as soon as it is idle, unless it is pinned again before; one that is not loaded is left alone. */
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
    return { adapter, numUsers: 0, isRetired: false };
  }

  #dropIdle(): void {
    for (const [digest, loaded] of this.#loaded) {
      const isTooMuch = this.#sizeBytes > this.#maxBytes;
      if (loaded.numUsers > 0 || !(isTooMuch || loaded.isRetired)) continue;
      this.#loaded.delete(digest);
      this.#sizeBytes -= loaded.adapter.sizeBytes;
      loaded.adapter.close();
    }
  }
}

interface LoadedAdapter {
  readonly adapter: RunnerAdapter;
  numUsers: number;
  isRetired: boolean;
}
