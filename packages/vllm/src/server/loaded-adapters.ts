import { EngineError, type LoadedVersion, type RefusedVersion } from '@trainyard/backend';
import type { HttpLine } from '../wire/http-line.ts';
import { ServerFailure } from '../wire/server-failure.ts';

export interface LoadedAdaptersOptions {
  readonly line: HttpLine;
  /** Names that the server may have at a time: its flag `--max-cpu-loras`. */
  readonly maxAdapters: number;
  /** How long a load may take, ms. */
  readonly timeoutMs: number;
  /** The folder of a version, as that server sees it. @throws {EngineError} engine.adapter_unreadable */
  readonly pathOf: (digest: string) => string;
}

/** One adapter on its way to the server, or there. */
interface Loaded {
  readonly ready: Promise<void>;
  numUsers: number;
  /** Counts up over all adapters; {@link UNUSED}: no request has used it. */
  lastUse: number;
  /** ms since 1970 */
  usedAt: number;
  /** When it was found to be there, ms since 1970; null: it is on its way. */
  since: number | null;
}

/** A name that this service gives; others are left alone. */
const DIGEST = /^[0-9a-f]{64}$/;
const UNUSED = -1;
/** An adapter without a request for this long is not being sampled from: an adapter that is loaded ahead may take its room. */
const QUIET_MS = 60_000;
/** How long the server is not asked again for an adapter that it refused. */
const REFUSED_MS = 60_000;
/** Refusals to remember. */
const MAX_REFUSED = 256;

interface Refusal {
  readonly error: EngineError;
  readonly reason: string;
  readonly until: number;
}

/**
 * The adapter versions that one server has, each under its digest as its name: a name never means other weights. Beyond the limit one that nobody uses goes: first those
 * that no request has used yet, then the least recently used. If all are in use, one more is loaded all the same, and the server swaps.
 */
export class LoadedAdapters {
  readonly #options: LoadedAdaptersOptions;
  readonly #loaded = new Map<string, Loaded>();
  /** Unloads on their way, which a new load of the name waits for. */
  readonly #leaving = new Map<string, Promise<void>>();
  #numUses = 0;
  /** In the order in which they end. */
  readonly #refused = new Map<string, Refusal>();

  constructor(options: LoadedAdaptersOptions) {
    this.#options = options;
  }

  get size(): number {
    return this.#loaded.size;
  }

  /**
   * Resolves when the server has it; it stays until it is released.
   * @throws {EngineError} engine.adapter_unreadable; {ServerFailure} when the server is not to be had
   */
  async hold(digest: string): Promise<() => void> {
    const adapter = this.#loaded.get(digest) ?? this.#add(digest);
    adapter.numUsers++;
    this.#use(adapter);
    let isHeld = true;
    const release = (): void => {
      if (!isHeld) return;
      isHeld = false;
      adapter.numUsers--;
      this.#use(adapter);
    };
    try {
      await adapter.ready;
      return release;
    } catch (error) {
      release();
      throw error;
    }
  }

  /**
   * Resolves when the server has it, or if there is room for it only in place of adapters that requests used within the last minute: its first request loads it then.
   * @throws as {@link hold}
   */
  async loadAhead(digest: string): Promise<void> {
    const known = this.#loaded.get(digest);
    if (known === undefined && !this.#hasRoomAhead) return;
    const adapter = known ?? this.#add(digest);
    adapter.numUsers++;
    try {
      await adapter.ready;
    } finally {
      adapter.numUsers--;
    }
  }

  /** Adapters that the server has, by their digests. */
  get present(): readonly LoadedVersion[] {
    return [...this.#loaded].flatMap(([digest, { since }]) => (since === null ? [] : [{ digest, since }]));
  }

  /** Adapters that the server refused, and is not asked for now. */
  get refused(): readonly RefusedVersion[] {
    const now = Date.now();
    return [...this.#refused].flatMap(([digest, { reason, until }]) =>
      until > now ? [{ digest, reason, until }] : [],
    );
  }

  /** Corrects the book by the names that the server lists: an earlier life of this service loaded some, and a restart of the server lost others. */
  reconcile(names: readonly string[]): void {
    const found = new Set(names.filter((name) => DIGEST.test(name)));
    for (const [digest, { since }] of this.#loaded)
      if (since !== null && !found.has(digest)) this.#loaded.delete(digest);
    for (const digest of found)
      if (!this.#loaded.has(digest) && !this.#leaving.has(digest))
        this.#loaded.set(digest, {
          ready: Promise.resolve(),
          numUsers: 0,
          lastUse: UNUSED,
          usedAt: 0,
          since: Date.now(),
        });
  }

  /** The server does not know it any more: it was started anew. The next one who holds it loads it again. */
  forget(digest: string): void {
    this.#loaded.delete(digest);
  }

  forgetAll(): void {
    this.#loaded.clear();
    this.#refused.clear();
  }

  /** Unknown digests are ignored. What the server cannot give back now takes memory there, and harms no request. */
  async unload(digest: string): Promise<void> {
    const adapter = this.#loaded.get(digest);
    if (adapter === undefined) return;
    this.#loaded.delete(digest);
    const gone = adapter.ready
      .then(async () => void (await this.#call('/v1/unload_lora_adapter', { lora_name: digest })))
      .catch(() => undefined)
      .finally(() => this.#leaving.delete(digest));
    this.#leaving.set(digest, gone);
    await gone;
  }

  #use(adapter: Loaded): void {
    adapter.lastUse = this.#numUses++;
    adapter.usedAt = Date.now();
  }

  get #hasRoomAhead(): boolean {
    if (this.#loaded.size < this.#options.maxAdapters) return true;
    const quietSince = Date.now() - QUIET_MS;
    return [...this.#loaded.values()].some(({ numUsers, usedAt }) => numUsers === 0 && usedAt <= quietSince);
  }

  /** @throws {EngineError} the refusal of a short time ago */
  #checkRefused(digest: string): void {
    const refusal = this.#refused.get(digest);
    if (refusal !== undefined && refusal.until > Date.now()) throw refusal.error;
  }

  #refuse(digest: string, refusal: Omit<Refusal, 'until'>): void {
    this.#refused.delete(digest);
    this.#refused.set(digest, { ...refusal, until: Date.now() + REFUSED_MS });
    const [oldest] = this.#refused.keys();
    if (this.#refused.size > MAX_REFUSED && oldest !== undefined) this.#refused.delete(oldest);
  }

  #add(digest: string): Loaded {
    const adapter: Loaded = { ready: this.#load(digest), numUsers: 0, lastUse: UNUSED, usedAt: 0, since: null };
    this.#loaded.set(digest, adapter);
    adapter.ready.then(
      () => (adapter.since = Date.now()),
      () => {
        if (this.#loaded.get(digest) === adapter) this.#loaded.delete(digest);
      },
    );
    return adapter;
  }

  async #load(digest: string): Promise<void> {
    await this.#leaving.get(digest);
    this.#checkRefused(digest);
    this.#makeRoom();
    const path = this.#options.pathOf(digest);
    try {
      // Never `load_inplace`: the old weights' cache would be read with the new ones.
      await this.#call('/v1/load_lora_adapter', { lora_name: digest, lora_path: path });
    } catch (error) {
      if (error instanceof ServerFailure && isThereAlready(error)) return;
      const reason = error instanceof ServerFailure ? reasonOf(error) : null;
      if (reason === null) throw error;
      const refusal = unreadable(digest, reason, error);
      this.#refuse(digest, { error: refusal, reason });
      throw refusal;
    }
    this.#refused.delete(digest);
  }

  #makeRoom(): void {
    const idle = [...this.#loaded].filter(([, { numUsers }]) => numUsers === 0);
    const order = idle.toSorted(([, a], [, b]) => a.lastUse - b.lastUse);
    // The one that comes is among them, and held.
    const numTooMany = this.#loaded.size - this.#options.maxAdapters;
    for (const [digest] of order.slice(0, Math.max(numTooMany, 0))) void this.unload(digest);
  }

  #call(path: string, body: object): Promise<string> {
    const { line, timeoutMs } = this.#options;
    return line.text('POST', path, JSON.stringify(body), { timeoutMs });
  }
}

/** By its digest, so it is the same: this process was started anew, and the server was not. */
function isThereAlready({ kind, reason }: ServerFailure): boolean {
  return kind === 'refused' && reason.includes('already been loaded');
}

/** The refusal of a load. Clients read it: it has no address and no path. */
function unreadable(digest: string, reason: string, cause: unknown): EngineError {
  const message = `the adapter ${digest} cannot be loaded by the vLLM server: ${reason}`;
  return new EngineError('engine.adapter_unreadable', message, { cause });
}

/** Null for a failure that is none of the adapter. */
function reasonOf({ kind, reason }: ServerFailure): string | null {
  if (kind === 'unknown_model')
    return 'it cannot see the folder of the adapter: mount the same folder, or set --vllm-adapter-dir and --vllm-adapter-path';
  if (kind === 'no_route')
    return 'it does not load adapters: start it with --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=True';
  if (kind !== 'refused' && kind !== 'broken') return null;
  const rank = /rank \d+ is greater than max_lora_rank \d+/i.exec(reason)?.[0];
  if (rank !== undefined) return `${rank}: start it with a higher --max-lora-rank`;
  if (/lora is not enabled/i.test(reason)) return 'it was started without --enable-lora';
  return 'it refused the files; see its log';
}
