import type { BackendMember, EngineStats } from '@trainyard/backend';
import type { EngineEvent, TokenizeInput, TokenizerFacts } from '@trainyard/generation';
import { StoreError } from '@trainyard/store';

import type {
  InferenceBackend,
  InferenceRequest,
  ModelInference,
  ServedAdapter,
  Tokenized,
} from '../../seams/contract/backends.ts';
import type { BaseModel } from '../../seams/contract/base-models.ts';
import { BackendFailure, toBackendFailure } from '../../seams/faults/backend-failure.ts';
import { isLoadRefusal, refusalForClients } from '../../seams/faults/load-refusal.ts';
import { RequestError } from '../../seams/faults/request-error.ts';
import type { RequestCapacity } from '../../hosts/pool/request-capacity.ts';
import type { EngineSecret } from '../wire/engine-secret.ts';
import {
  ENGINE_PATHS,
  type EnginePath,
  type PublishAnswer,
  type PublishCall,
  type RetireCall,
  type TokenizeCall,
  type TokensCall,
} from '../wire/engine-wire.ts';
import { generateText } from '../wire/wire-request.ts';
import { EngineDirectory, type EngineDirectoryOptions } from './engine-directory.ts';
import { EngineFault } from './engine-fault.ts';
import type { AnswerBounds } from './event-check.ts';
import { ENGINE_TIMES, type EngineLink, type EngineTimes } from './engine-link.ts';
import { routeKey } from './route-key.ts';

/** The request itself may have broken the engine: it is retried once, and not a second time. */
const MAX_LOSSES = 2;
/** Seconds until a client without an engine may retry. */
const RETRY_AFTER = '5';
/** Time limit for notifying an engine that an adapter is not needed any more. */
const RETIRE_MS = 5_000;

export interface RemoteEnginesOptions {
  readonly store: EngineDirectoryOptions['store'];
  readonly secret: EngineSecret;
  /** limits the requests in flight of this process */
  readonly capacity: RequestCapacity;
  /** base model of requests that name none; null: the first of an engine */
  readonly defaultModel: string | null;
  readonly log: (line: string) => void;
  /** default {@link ENGINE_TIMES} */
  readonly times?: EngineTimes;
}

/**
 * Engines on other machines, found in the shared database. The key of a request (`routeKey`) selects its
 * engine, so that common prefixes are cached there. A request may move to another engine until part of its
 * answer has reached the client.
 */
export class RemoteEngines implements InferenceBackend {
  readonly isRemote = true;
  readonly #options: RemoteEnginesOptions;
  readonly #engines: EngineDirectory;
  readonly #inferences = new Map<string, ModelInference>();

  constructor(options: RemoteEnginesOptions) {
    this.#options = options;
    const { store, secret, times = ENGINE_TIMES, log } = options;
    this.#engines = new EngineDirectory({ store, secret, times, log });
  }

  /** Looks for engines. Having none is not an error: they may come. @throws {StoreError} */
  async start(): Promise<void> {
    await this.#engines.start();
    if (!this.#engines.links.some(({ isUp }) => isUp))
      this.#options.log('no engine accepts requests yet: start one with --role engine and this database');
  }

  async close(): Promise<void> {
    this.#engines.close();
  }

  get models(): readonly BaseModel[] {
    const { defaultModel } = this.#options;
    const models = this.#engines.facts.map(({ tokenizer: _ofEngine, ...model }): BaseModel => model);
    return models.toSorted((a, b) => Number(b.id === defaultModel) - Number(a.id === defaultModel));
  }

  absence(id: string | null): RequestError | null {
    const { defaultModel } = this.#options;
    const isExpected = id === null || id === defaultModel || this.#engines.isRegistered(id);
    if (!isExpected || (id !== null && this.#engines.factsOf(id) !== null)) return null;
    const subject = id === null ? 'any base model' : `the base model \`${id}\``;
    return new RequestError('server.unavailable', `No engine with ${subject} is available now; retry`, {
      param: 'model',
      headers: { 'retry-after': RETRY_AFTER },
    });
  }

  checkCapacity(): void {
    const { refusal } = this.#options.capacity;
    if (refusal !== null) throw new BackendFailure('engine.overloaded', refusal, null);
  }

  /**
   * Runs on all engines that take requests, in parallel. An engine that does not answer is logged and loads
   * the adapter with its first request.
   */
  async publish(id: string, { digest, directoryKey }: ServedAdapter, signal: AbortSignal): Promise<string | null> {
    const call: PublishCall = { model: id, digest, directoryKey };
    const links = this.#engines.openLinks(id);
    const answers = await Promise.all(links.map((link) => this.#publishOn(link, call, signal)));
    const failures = answers.filter((answer) => answer instanceof BackendFailure);
    const [failure] = failures;
    if (failure !== undefined && failures.length === links.length) throw failure;
    const reasons = answers.flatMap((answer) => answer ?? []);
    const [first] = reasons;
    if (first === undefined) return null;
    const reason = first instanceof BackendFailure ? first.message : first;
    return `${reasons.length} of ${links.length} engines: ${refusalForClients(reason)}`;
  }

  /** An engine that misses the call drops the adapter when it needs the memory. */
  retire(digest: string): void {
    const call: RetireCall = { digest };
    for (const { line } of this.#engines.links)
      line.call(ENGINE_PATHS.retire, call, AbortSignal.timeout(RETIRE_MS)).catch(() => undefined);
  }

  problem(): string | null {
    const { facts } = this.#engines;
    if (facts.length === 0) return 'no engine is available';
    const reasons = facts.flatMap(({ id }) => {
      const links = this.#engines.openLinks(id);
      if (links.length === 0) return [`no engine accepts requests for ${id}`];
      return links.every(({ ownProblem }) => ownProblem !== null) ? [links[0]!.ownProblem!] : [];
    });
    return reasons.length === 0 ? null : [...new Set(reasons)].join('; ');
  }

  of(id: string): ModelInference {
    let inference = this.#inferences.get(id);
    if (inference === undefined) this.#inferences.set(id, (inference = this.#inferenceOf(id)));
    return inference;
  }

  /**
   * @returns the reason if it, or some of its servers, refuse the adapter; null: it was loaded, or gave no
   * answer
   */
  async #publishOn(link: EngineLink, call: PublishCall, signal: AbortSignal): Promise<BackendFailure | string | null> {
    const inHand = link.inHand.begin(signal);
    try {
      return (await link.line.call<PublishAnswer>(ENGINE_PATHS.publish, call, inHand.signal)).partial;
    } catch (error) {
      const { message } = error as Error;
      if (isLoadRefusal(error)) {
        this.#options.log(`${link.name} refuses the adapter ${call.digest}: ${message}`);
        return error;
      }
      signal.throwIfAborted();
      this.#options.log(`an engine loads the adapter ${call.digest} by its first request: ${message}`);
      return null;
    } finally {
      inHand.release();
      this.#engines.recheck(link);
    }
  }

  #inferenceOf(id: string): ModelInference {
    return {
      generate: (request, signal) => this.#generate(id, request, signal),
      tokenize: async (input: TokenizeInput, { withTexts, signal }): Promise<Tokenized> =>
        await this.#call<Tokenized, TokenizeCall>(id, ENGINE_PATHS.tokenize, { model: id, input, withTexts }, signal),
      detokenize: async (tokenIds, { signal }): Promise<string> => {
        const call: TokensCall = { model: id, tokenIds };
        return (await this.#call<{ text: string }>(id, ENGINE_PATHS.detokenize, call, signal)).text;
      },
      tokenTexts: async (tokenIds, { signal }): Promise<string[]> => {
        const call: TokensCall = { model: id, tokenIds };
        return (await this.#call<{ texts: string[] }>(id, ENGINE_PATHS.tokenTexts, call, signal)).texts;
      },
      tokenizerFacts: (): TokenizerFacts => {
        const facts = this.#engines.factsOf(id);
        if (facts === null) throw new Error(`no engine has had the base model ${id}`);
        return facts.tokenizer;
      },
      stats: () => this.#statsOf(id),
      members: (): readonly BackendMember[] =>
        this.#engines.links.filter((link) => link.modelOf(id) !== null).map((link) => link.asMember()),
    };
  }

  async *#generate(id: string, request: InferenceRequest, signal: AbortSignal): AsyncGenerator<EngineEvent> {
    const { capacity } = this.#options;
    if (capacity.refusal !== null) return yield failed('engine.overloaded', capacity.refusal);
    capacity.numInFlight += 1;
    try {
      yield* this.#tryEngines(id, request, signal);
    } finally {
      capacity.numInFlight -= 1;
    }
  }

  async *#tryEngines(id: string, request: InferenceRequest, signal: AbortSignal): AsyncGenerator<EngineEvent> {
    const text = generateText({ model: id, request });
    const key = routeKey(request);
    const tried = new Set<EngineLink>();
    let last: EngineEvent | StoreError | null = null;
    let hasOutput = false;
    const mayRestart = () => request.isWhole === true || !hasOutput;
    for (let numLosses = 0; numLosses < MAX_LOSSES;) {
      if (signal.aborted) return yield failed('engine.aborted', 'the request was cancelled');
      const link = await this.#pick(id, key, request.n, tried);
      if (link === null) {
        last ??= failed('engine.host_lost', `no engine accepts requests for ${id} now; retry`);
        break;
      }
      tried.add(link);
      let hasBegun = false;
      try {
        for await (const event of link.generate(text, this.#boundsOf(id, request), signal)) {
          // Another engine may have room, or work.
          if (!hasBegun && isRefusalOfEngine(event)) {
            last = event;
            break;
          }
          // The engine's sampling host has ended, but its port works.
          if (hasBegun && isLoss(event) && mayRestart())
            throw new EngineFault('lost', `${link.name} lost its engine host`);
          hasBegun = true;
          hasOutput ||= event.kind === 'delta' || event.kind === 'finished';
          yield event;
        }
        if (hasBegun) return;
      } catch (error) {
        if (signal.aborted) return yield failed('engine.aborted', 'the request was cancelled');
        if (error instanceof StoreError) {
          // Another machine may have the adapter already, or space for it.
          link.counts.failures += 1;
          last = error;
          continue;
        }
        if (!(error instanceof EngineFault)) throw error;
        // The engine reported the failure itself: it is caused by the request, and would recur elsewhere.
        if (error.kind === 'failed') return yield this.#onFailed(link, error);
        this.#onFault(link, error);
        // A request that was never received does not count as lost.
        if (error.kind === 'draining' || error.kind === 'unreachable') continue;
        numLosses += 1;
        last = failed('engine.host_lost', 'the inference engine stopped while this request ran; retry');
        if (hasBegun && !mayRestart()) break;
      }
    }
    if (last instanceof StoreError) throw last;
    if (last !== null) yield last;
  }

  #boundsOf(id: string, { n, maxTokens }: InferenceRequest): AnswerBounds {
    const { vocabSize, contextLength } = this.#engines.factsOf(id) ?? { vocabSize: 0, contextLength: 0 };
    return { numChoices: n, maxTokens: maxTokens ?? contextLength, vocabSize };
  }

  /** Calls one engine, and another if the first is gone: the calls can be repeated. */
  async #call<Answer, Call extends object = object>(
    id: string,
    path: EnginePath,
    call: Call,
    signal: AbortSignal,
  ): Promise<Answer> {
    const tried = new Set<EngineLink>();
    for (;;) {
      signal.throwIfAborted();
      const link = await this.#pick(id, path, 1, tried);
      if (link === null || tried.size >= MAX_LOSSES)
        throw new BackendFailure('engine.host_lost', `no engine accepts requests for ${id} now; retry`, null);
      tried.add(link);
      const request = link.inHand.begin(signal);
      try {
        return await link.line.call<Answer>(path, call, request.signal);
      } catch (error) {
        if (signal.aborted || !(error instanceof EngineFault)) throw error;
        if (error.kind === 'failed') throw toBackendFailure(this.#onFailed(link, error));
        this.#onFault(link, error);
      } finally {
        request.release();
      }
    }
  }

  /** Engine for a key; null if none is left. A suspected one may be available a moment later. */
  async #pick(id: string, key: string, numChoices: number, tried: ReadonlySet<EngineLink>): Promise<EngineLink | null> {
    const link = this.#engines.pick(id, key, numChoices, tried);
    if (link !== null) return link;
    await this.#engines.whenLookedAgain();
    return this.#engines.pick(id, key, numChoices, tried);
  }

  #onFailed(link: EngineLink, fault: EngineFault): Extract<EngineEvent, { kind: 'failed' }> {
    link.counts.failures += 1;
    this.#options.log(`a request failed: ${fault.message}`);
    return failed('engine.internal', 'the engine failed; see its log');
  }

  #onFault(link: EngineLink, fault: EngineFault): void {
    if (fault.kind !== 'draining') {
      link.counts[fault.kind === 'unfit' ? 'failures' : 'losses'] += 1;
      link.suspect(fault);
    }
    this.#engines.recheck(link);
  }

  #statsOf(id: string): EngineStats | null {
    const all = this.#engines.links.flatMap((link) => (link.isThere ? [link.modelOf(id)?.stats ?? []].flat() : []));
    const [first, ...others] = all;
    if (first === undefined) return null;
    const sum = { ...first };
    for (const stats of others) for (const name of Object.keys(sum) as (keyof EngineStats)[]) sum[name] += stats[name];
    return sum;
  }
}

function isLoss(event: EngineEvent): boolean {
  return event.kind === 'failed' && event.code === 'engine.host_lost';
}

/** True for a refusal because of the engine, not of the request. */
function isRefusalOfEngine(event: EngineEvent): boolean {
  return event.kind === 'failed' && (event.code === 'engine.overloaded' || event.code === 'engine.host_lost');
}

function failed(
  code: 'engine.host_lost' | 'engine.aborted' | 'engine.overloaded' | 'engine.internal',
  message: string,
): Extract<EngineEvent, { kind: 'failed' }> {
  return { kind: 'failed', code, message, param: null };
}
