import { EngineError, type LoadedVersion, type RefusedVersion } from '@trainyard/backend';
import type { HttpLine } from '../wire/http-line.ts';
import { ServerFailure } from '../wire/server-failure.ts';

export interface LoadedAdaptersOptions {
  readonly line: HttpLine;
  /** Maximum adapters of the server: its flag `--max-cpu-loras`. */
  readonly maxAdapters: number;
  /** Time limit of a load, ms. */
  readonly timeoutMs: number;
  /** Ends loads when the server is lost. Read at each load. */
  readonly life: () => AbortSignal;
  /** Folder of a version on the server. @throws {EngineError} engine.adapter_unreadable */
  readonly pathOf: (digest: string) => string;
}

/** An adapter that is loading or loaded. */
interface Loaded {
  readonly ready: Promise<void>;
  numUsers: number;
  /** Increases over all adapters; {@link UNUSED}: no request has used it. */
  lastUse: number;
  /** ms since 1970 */
  usedAt: number;
  /** Time at which it was found loaded, ms since 1970; null while loading. */
  since: number | null;
}

/** Form of names given by this service; others are left alone. */
const DIGEST = /^[0-9a-f]{64}$/;
const UNUSED = -1;
/** Time without a request after which an adapter may be evicted for one loaded ahead. */
const QUIET_MS = 60_000;
/** Time before an adapter that the server refused is requested again. */
const REFUSED_MS = 60_000;
const MAX_REFUSED = 256;

interface Refusal {
  readonly error: EngineError;
  readonly reason: string;
  readonly until: number;
}

/**
 * Adapter versions on one server, each named by its digest, so a name always means the same weights. Beyond
 * the limit an idle one is unloaded: first those that no request has used yet, then the least recently used.
 * If all are in use, one more is loaded anyway, and the server swaps.
 */
export class LoadedAdapters {
  readonly #options: LoadedAdaptersOptions;
  readonly #loaded = new Map<string, Loaded>();
  /** Unloads in progress; a new load of the name waits for its own. */
  readonly #leaving = new Map<string, Promise<void>>();
  #numUses = 0;
  /** Refusals in the order of their ends. */
  readonly #refused = new Map<string, Refusal>();

  constructor(options: LoadedAdaptersOptions) {
    this.#options = options;
  }

  get size(): number {
    return this.#loaded.size;
  }

  /**
   * Resolves once the server has it; it stays until it is released.
   * @throws {EngineError} engine.adapter_unreadable; {ServerFailure} if the server is unavailable
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
   * Resolves once the server has it. Does nothing if it would replace adapters that requests used within the
   * last minute; its first request loads it then.
   * @throws as {@link hold}
   */
  async loadAhead(digest: string): Promise<void> {
    const known = this.#loaded.get(digest);
    if (known === undefined && !this.#canLoadAhead) return;
    const adapter = known ?? this.#add(digest);
    adapter.numUsers++;
    try {
      await adapter.ready;
    } finally {
      adapter.numUsers--;
    }
  }

  get present(): readonly LoadedVersion[] {
    return [...this.#loaded].flatMap(([digest, { since }]) => (since === null ? [] : [{ digest, since }]));
  }

  /** Adapters that the server refused and that are not requested now. */
  get refused(): readonly RefusedVersion[] {
    const now = Date.now();
    return [...this.#refused].flatMap(([digest, { reason, until }]) =>
      until > now ? [{ digest, reason, until }] : [],
    );
  }

  /**
   * Synchronises with the names that the server lists: an earlier run of this service loaded some, and a
   * restart of the server lost others.
   */
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

  /** Drops an adapter that a restarted server does not know; the next hold loads it again. */
  forget(digest: string): void {
    this.#loaded.delete(digest);
  }

  forgetAll(): void {
    this.#loaded.clear();
    this.#refused.clear();
  }

  /**
   * Unloads an adapter; ignores unknown digests. One that the server cannot unload takes memory there but
   * affects no request.
   */
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

  get #canLoadAhead(): boolean {
    if (this.#loaded.size < this.#options.maxAdapters) return true;
    const quietSince = Date.now() - QUIET_MS;
    const quiet = [...this.#loaded.values()].filter(({ numUsers, usedAt }) => numUsers === 0 && usedAt <= quietSince);
    // As many as `#evict` unloads: more than one if the server is above its limit.
    return quiet.length > this.#loaded.size - this.#options.maxAdapters;
  }

  /** @throws {EngineError} a recent refusal */
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
    this.#evict();
    const path = this.#options.pathOf(digest);
    try {
      // Never `load_inplace`: the cache of the old weights would be used with the new ones.
      await this.#call('/v1/load_lora_adapter', { lora_name: digest, lora_path: path }, this.#options.life());
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

  #evict(): void {
    const idle = [...this.#loaded].filter(([, { numUsers }]) => numUsers === 0);
    const order = idle.toSorted(([, a], [, b]) => a.lastUse - b.lastUse);
    // The new one is among them, and held.
    const numTooMany = this.#loaded.size - this.#options.maxAdapters;
    for (const [digest] of order.slice(0, Math.max(numTooMany, 0))) void this.unload(digest);
  }

  #call(path: string, body: object, signal?: AbortSignal): Promise<string> {
    const { line, timeoutMs } = this.#options;
    return line.text('POST', path, JSON.stringify(body), { timeoutMs, ...(signal && { signal }) });
  }
}

/**
 * True if the server has this name already, and so this digest: this process was restarted, but not the
 * server.
 */
function isThereAlready({ kind, reason }: ServerFailure): boolean {
  return kind === 'refused' && reason.includes('already been loaded');
}

/** Refusal of a load. Clients read it, so it has no address and no path. */
function unreadable(digest: string, reason: string, cause: unknown): EngineError {
  const message = `the adapter ${digest} cannot be loaded by the vLLM server: ${reason}`;
  return new EngineError('engine.adapter_unreadable', message, { cause });
}

/** Returns null for a failure unrelated to the adapter. */
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
