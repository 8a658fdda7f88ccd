import type { AdapterRef } from '@trainyard/backend';
import type { EngineEvent, TokenizeInput } from '@trainyard/generation';

import type { BaseModel } from '../../seams/contract/base-models.ts';
import type {
  AdapterFormat,
  InferenceBackend,
  InferenceRequest,
  ModelInference,
  ServedAdapter,
  Tokenized,
  Problem,
} from '../../seams/contract/backends.ts';
import { BackendFailure } from '../../seams/faults/backend-failure.ts';
import { RequestError } from '../../seams/faults/request-error.ts';
import { ServerError } from '../../seams/faults/server-error.ts';
import type { ModelCheck } from '../../seams/integrity/model-check.ts';
import type { ServedModel } from '../process/opened-text.ts';
import { inMegabytes } from './model-memory.ts';
import type { RequestCapacity } from './request-capacity.ts';

/**
 * Maximum wait of a request for memory for its model. Longer than most replies take, shorter than clients
 * wait.
 */
const MEMORY_WAIT_MS = 30_000;
/** Seconds until a refused client may retry. */
const RETRY_AFTER = '5';

export interface ModelHost extends ModelInference {
  /** @throws if it cannot be loaded; it is then closed */
  start(): Promise<void>;
  /** Ends all its work, including an unfinished `start`. */
  close(): Promise<void>;
  publish?(adapter: AdapterRef, signal: AbortSignal): Promise<string | null>;
  retire(digest: string): void;
  problem(): Problem;
  /** Known once it has started. */
  readonly servedModel: ServedModel;
  /** True without a generation in flight. */
  readonly isIdle: boolean;
}

export interface PoolModel {
  readonly id: string;
  /** Known facts while it is not in memory; null: it is loaded at the start and stays. */
  readonly served: ServedModel | null;
  /** Its size in memory, bytes. */
  readonly bytes: number;
}

export interface InferencePoolOptions {
  /** The first is loaded at the start, as is every model that stays. */
  readonly models: readonly PoolModel[];
  /** @param onIdle called whenever the host becomes idle */
  readonly open: (id: string, onIdle: () => void) => ModelHost;
  /** Limit of all models in memory together, bytes; each of them fits by itself. */
  readonly budgetBytes: number;
  readonly capacity: RequestCapacity;
  /** Maximum wait of a request for memory for its model, ms; default 30 s. Loading time is extra. */
  readonly memoryWaitMs?: number;
  /** Default `peft`. */
  readonly adapterFormat?: AdapterFormat;
  /** Checks model files. Default: none are checked. */
  readonly files?: ModelCheck;
  readonly log: (line: string) => void;
}

/**
 * Several base models, each in its own host, within a memory budget. The first model is loaded at the start,
 * every other on demand, in the order of requests. If a model does not fit, idle models are unloaded, the
 * least recently used first.
 */
export class InferencePool implements InferenceBackend {
  readonly #options: InferencePoolOptions;
  #models: readonly BaseModel[] | null = null;
  readonly #slots: Map<string, Slot>;
  readonly #waiting = new Set<Waiter>();
  #numUses = 0;
  #isClosing = false;

  constructor(options: InferencePoolOptions) {
    this.#options = options;
    this.#slots = new Map(
      options.models.map((model) => [model.id, new Slot(model, (slot) => this.#inferenceOf(slot))]),
    );
  }

  /** @throws {ServerError} if the first model, or one that stays, cannot be loaded */
  async start(): Promise<void> {
    const [first, ...others] = this.#slots.values();
    if (first === undefined) throw new Error('a pool has at least one model');
    try {
      await this.#load(first);
    } catch (error) {
      if (!isDamage(error)) throw error;
      // The other models are served; requests for this one get the reason.
      if (first.model.served === null) throw new ServerError('server.model_damaged', error.message, { cause: error });
    }
    for (const slot of others) if (slot.model.served === null) await this.#load(slot);
  }

  /** Refuses waiting requests, and ends every host. */
  async close(): Promise<void> {
    this.#isClosing = true;
    for (const waiter of this.#waiting) this.#refuse(waiter, stopping());
    await Promise.all([...this.#slots.values()].map(async ({ host }) => await host?.close()));
  }

  /**
   * Adds a base model, which its first request loads. `open` must know it.
   * @param sizes sizes of models that stayed in memory, which may now be unloaded for others, bytes by id
   */
  add(model: PoolModel, sizes: ReadonlyMap<string, number> = new Map()): void {
    if (this.#slots.has(model.id)) throw new Error(`the base model ${model.id} is served already`);
    for (const [id, bytes] of sizes) {
      const slot = this.#slots.get(id);
      if (slot !== undefined) slot.model = { ...slot.model, bytes };
    }
    this.#slots.set(model.id, new Slot(model, (slot) => this.#inferenceOf(slot)));
    this.#models = null;
  }

  get adapterFormat(): AdapterFormat {
    return this.#options.adapterFormat ?? 'peft';
  }

  get models(): readonly BaseModel[] {
    // File facts, known after the start; cached because every request reads them.
    this.#models ??= Array.from(this.#slots.values(), ({ model, served }) => {
      const { contextLength, vocabSize, untrainable, linearsByLayer = null, maxLoraRank = null } = served();
      return {
        id: model.id,
        contextLength,
        vocabSize,
        ...(untrainable === undefined ? {} : { untrainable }),
        ...(linearsByLayer === null ? {} : { linearsByLayer }),
        ...(maxLoraRank === null ? {} : { maxLoraRank }),
      };
    });
    return this.#models;
  }

  /** File of a served model, which training uses too; null if it is not served. It may not be in memory. */
  pathOf(id: string): string | null {
    return this.#slots.get(id)?.served().path ?? null;
  }

  checkCapacity(): void {
    const { refusal } = this.#options.capacity;
    if (refusal !== null) throw new BackendFailure('engine.overloaded', refusal, null);
  }

  /**
   * Only for models in memory: others load their adapters with the next request, and a new step without
   * requests loads none.
   */
  async publish(id: string, { digest, path }: ServedAdapter, signal: AbortSignal): Promise<string | null> {
    const slot = this.#slots.get(id);
    if (path === null) throw new Error(`the file of the adapter ${digest} was not looked for`);
    if (slot?.state !== 'ready') return null;
    slot.numHolders += 1;
    try {
      return (await slot.host?.publish?.({ digest, path }, signal)) ?? null;
    } finally {
      this.#release(slot);
    }
  }

  /** A model that is not in memory has no adapters in memory. */
  retire(digest: string): void {
    for (const { host } of this.#slots.values()) host?.retire(digest);
  }

  async problem(): Promise<string | null> {
    const reasons = await Promise.all(Array.from(this.#slots.values(), (slot) => this.#problemOf(slot)));
    return reasons.filter((reason) => reason !== null).join('; ') || null;
  }

  isLoaded(id: string): boolean {
    return this.#slots.get(id)?.state === 'ready';
  }

  of(id: string): ModelInference {
    const slot = this.#slots.get(id);
    if (slot === undefined) throw new Error(`the base model ${id} is not served`);
    return slot.inference;
  }

  #inferenceOf(slot: Slot): ModelInference {
    return {
      tokenizerFacts: () => slot.served().tokenizer,
      stats: () => (slot.state === 'ready' ? (slot.host?.stats() ?? null) : null),
      members: () => (slot.state === 'ready' ? (slot.host?.members?.() ?? []) : []),
      adapters: () => (slot.state === 'ready' ? (slot.host?.adapters?.() ?? []) : []),
      // The host is chosen when the first event is requested, and then used directly, without a layer in
      // between.
      generate: (request, signal) => ({
        [Symbol.asyncIterator]: () => this.#generate(slot, request, signal)[Symbol.asyncIterator](),
      }),
      tokenize: (input: TokenizeInput, options): Promise<Tokenized> =>
        this.#using(slot, options.signal, (host) => host.tokenize(input, options)),
      detokenize: (tokenIds, options): Promise<string> =>
        this.#using(slot, options.signal, (host) => host.detokenize(tokenIds, options)),
      tokenTexts: (tokenIds, options): Promise<string[]> =>
        this.#using(slot, options.signal, (host) => host.tokenTexts(tokenIds, options)),
    };
  }

  #generate(slot: Slot, request: InferenceRequest, signal: AbortSignal): AsyncIterable<EngineEvent> {
    this.#options.files?.refuseDamaged(slot.model.id);
    if (slot.state !== 'ready' || slot.host === null) return this.#generateLoaded(slot, request, signal);
    slot.lastUse = this.#numUses++;
    return slot.host.generate(request, signal);
  }

  async *#generateLoaded(slot: Slot, request: InferenceRequest, signal: AbortSignal): AsyncGenerator<EngineEvent> {
    const { capacity } = this.#options;
    const { refusal } = capacity;
    if (refusal !== null) throw new BackendFailure('engine.overloaded', refusal, null);
    capacity.numInFlight += 1;
    let host: ModelHost;
    try {
      host = await this.#hold(slot, signal);
    } finally {
      capacity.numInFlight -= 1;
    }
    try {
      yield* host.generate(request, signal);
    } finally {
      this.#release(slot);
    }
  }

  async #using<Result>(slot: Slot, signal: AbortSignal, use: (host: ModelHost) => Promise<Result>): Promise<Result> {
    const host = await this.#hold(slot, signal);
    try {
      return await use(host);
    } finally {
      // Sampling mostly follows in the same turn of the event loop: the model is not unloaded in between.
      setImmediate(() => this.#release(slot));
    }
  }

  /**
   * Host of a model in memory, held there until it is released.
   * @throws {RequestError} `server.unavailable`; the signal's reason
   */
  async #hold(slot: Slot, signal: AbortSignal): Promise<ModelHost> {
    signal.throwIfAborted();
    if (this.#isClosing) throw stopping();
    this.#options.files?.refuseDamaged(slot.model.id);
    if (slot.state === 'ready') this.#admit(slot);
    else await this.#admission(slot, signal);
    if (slot.host === null) throw new Error(`the base model ${slot.model.id} was unloaded while it was in use`);
    return slot.host;
  }

  #admit(slot: Slot): void {
    slot.numHolders += 1;
    slot.lastUse = this.#numUses++;
  }

  #release(slot: Slot): void {
    slot.numHolders -= 1;
    this.#advance();
  }

  /** Resolves when the model is in memory and held for the caller. */
  async #admission(slot: Slot, signal: AbortSignal): Promise<void> {
    const { memoryWaitMs = MEMORY_WAIT_MS } = this.#options;
    const waiter: Waiter = { slot, admitted: Promise.withResolvers() };
    const leave = () => this.#refuse(waiter, signal.reason);
    const timer = setTimeout(() => {
      // A loading model already has its memory.
      if (slot.state !== 'loading') this.#refuse(waiter, this.#memoryTimeout(slot, memoryWaitMs));
    }, memoryWaitMs);
    signal.addEventListener('abort', leave, { once: true });
    this.#waiting.add(waiter);
    this.#advance();
    try {
      await waiter.admitted.promise;
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', leave);
    }
  }

  #refuse(waiter: Waiter, reason: unknown): void {
    if (!this.#waiting.delete(waiter)) return;
    waiter.admitted.reject(reason);
    // Others may have waited for it in the queue.
    this.#advance();
  }

  /** Loads requested models in order of arrival, as far as memory allows. */
  #advance(): void {
    if (this.#isClosing) return;
    for (const { slot } of this.#waiting) {
      if (slot.state !== 'absent') continue;
      if (!this.#freeMemory(slot)) return;
      void this.#loadForWaiters(slot);
    }
  }

  async #loadForWaiters(slot: Slot): Promise<void> {
    const { log } = this.#options;
    const { id, bytes } = slot.model;
    try {
      await this.#load(slot);
      log(`the base model ${id} is loaded (${inMegabytes(bytes)})`);
      for (const waiter of this.#waitersOf(slot)) {
        this.#waiting.delete(waiter);
        this.#admit(slot);
        waiter.admitted.resolve();
      }
    } catch (error) {
      log(`the base model ${id} cannot be loaded: ${error instanceof Error ? error.message : String(error)}`);
      const failure = this.#isClosing ? stopping() : isDamage(error) ? error : unloadable(id);
      for (const waiter of this.#waitersOf(slot)) {
        this.#waiting.delete(waiter);
        waiter.admitted.reject(failure);
      }
    }
    this.#advance();
  }

  async #load(slot: Slot): Promise<void> {
    slot.state = 'loading';
    try {
      await this.#options.files?.check(slot.model.id);
    } catch (error) {
      slot.state = 'absent';
      throw error;
    }
    const host = this.#options.open(slot.model.id, () => this.#advance());
    slot.host = host;
    try {
      await host.start();
    } catch (error) {
      slot.host = null;
      slot.state = 'absent';
      throw error;
    }
    slot.state = 'ready';
    slot.loaded = host.servedModel;
    slot.lastUse = this.#numUses++;
  }

  /** Unloads idle models if that frees enough memory. @returns true if there is enough now */
  #freeMemory({ model: { bytes } }: Slot): boolean {
    const slots = [...this.#slots.values()];
    const used = sumOfBytes(slots.filter(({ state }) => state !== 'absent'));
    let missing = used + bytes - this.#options.budgetBytes;
    if (missing <= 0) return true;
    missing -= sumOfBytes(slots.filter(({ state }) => state === 'closing'));
    // Models without memory use free nothing.
    const idle = slots.filter((slot) => slot.isIdle && slot.model.bytes > 0).toSorted((a, b) => a.lastUse - b.lastUse);
    if (sumOfBytes(idle) < missing) return false;
    for (const slot of idle) {
      if (missing <= 0) break;
      missing -= slot.model.bytes;
      void this.#unloadSlot(slot);
    }
    return false;
  }

  async #unloadSlot(slot: Slot): Promise<void> {
    const { host, model } = slot;
    slot.state = 'closing';
    this.#options.log(`the base model ${model.id} is unloaded to make room for another`);
    await host?.close();
    slot.host = null;
    slot.state = 'absent';
    this.#advance();
  }

  #waitersOf(slot: Slot): Waiter[] {
    return [...this.#waiting].filter((waiter) => waiter.slot === slot);
  }

  async #problemOf(slot: Slot): Promise<string | null> {
    const damage = this.#damageOf(slot);
    if (slot.state !== 'ready' && damage === null) return null;
    const reason = damage ?? (await slot.host?.problem()) ?? null;
    // The model may have been unloaded during the check.
    if (reason === null || (slot.state !== 'ready' && damage === null)) return null;
    return this.#slots.size === 1 ? reason : `${slot.model.id}: ${reason}`;
  }

  #damageOf({ model }: Slot): string | null {
    try {
      this.#options.files?.refuseDamaged(model.id);
      return null;
    } catch (error) {
      return (error as Error).message;
    }
  }

  #memoryTimeout({ model }: Slot, waitedMs: number): RequestError {
    const used = sumOfBytes([...this.#slots.values()].filter(({ state }) => state !== 'absent'));
    return new RequestError(
      'server.unavailable',
      `The base model \`${model.id}\` is not in memory, and no memory became free within ${waitedMs / 1000} s: it needs ${inMegabytes(model.bytes)}, the ` +
        `models in use need ${inMegabytes(used)}, and \`--model-memory-megabytes\` is ${Math.floor(this.#options.budgetBytes / 1e6)}; retry, or raise the setting`,
      { param: 'model', headers: { 'retry-after': RETRY_AFTER } },
    );
  }
}

class Slot {
  model: PoolModel;
  readonly inference: ModelInference;
  host: ModelHost | null = null;
  /** `closing`: it is being unloaded, and its memory is not free yet. */
  state: 'absent' | 'loading' | 'ready' | 'closing' = 'absent';
  /** As reported by its host. */
  loaded: ServedModel | null = null;
  /** Calls other than generations that keep it in memory. */
  numHolders = 0;
  /** Counter over all models. */
  lastUse = 0;

  constructor(model: PoolModel, inferenceOf: (slot: Slot) => ModelInference) {
    this.model = model;
    this.inference = inferenceOf(this);
  }

  /** In memory and unused. */
  get isIdle(): boolean {
    return this.state === 'ready' && this.numHolders === 0 && this.host?.isIdle === true;
  }

  served = (): ServedModel => {
    const served = this.loaded ?? this.model.served;
    if (served === null) throw new Error(`the base model ${this.model.id} has not been loaded yet`);
    return served;
  };
}

interface Waiter {
  readonly slot: Slot;
  readonly admitted: PromiseWithResolvers<void>;
}

function isDamage(error: unknown): error is BackendFailure {
  return error instanceof BackendFailure && error.code === 'engine.model_damaged';
}

function sumOfBytes(slots: readonly Slot[]): number {
  return slots.reduce((sum, { model }) => sum + model.bytes, 0);
}

function stopping(): RequestError {
  return new RequestError('server.unavailable', 'The service is shutting down; retry');
}

function unloadable(id: string): RequestError {
  return new RequestError(
    'server.unavailable',
    `The base model \`${id}\` could not be loaded; see the log of the service. The next request tries again`,
    { param: 'model', headers: { 'retry-after': RETRY_AFTER } },
  );
}
