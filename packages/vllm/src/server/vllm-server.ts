import { type BackendMember, EngineError } from '@trainyard/backend';
import { HttpLine } from '../wire/http-line.ts';
import type { ServerAddress } from '../wire/server-address.ts';
import { ServerFailure } from '../wire/server-failure.ts';
import { kvUseOf, processStartOf } from '../wire/server-metrics.ts';
import { CircuitBreaker } from './circuit-breaker.ts';
import { LoadedAdapters } from './loaded-adapters.ts';
import type { ProbeFolder } from './probe-lora-rank.ts';
import { asUnusable, probeServer, readAdapterNames } from './probe-server.ts';
import { type ServerFacts, UnusableServer } from './server-facts.ts';

/** Times, ms. */
export interface ServerTimes {
  /** Connection. */
  readonly connectMs: number;
  /** Answer to a question that needs no computation. */
  readonly answerMs: number;
  /** Answer to a question that computes a few tokens. */
  readonly computeMs: number;
  /** Load of an adapter. */
  readonly loadMs: number;
  /** Between two looks at its health. */
  readonly healthEveryMs: number;
  /** Answer to such a look. */
  readonly healthMs: number;
  /** A stream without a byte. */
  readonly stallMs: number;
  /** From the moment a server's requests fail to its first probe; doubles with each failed probe. */
  readonly probeAfterMs: number;
  /** Between two comparisons of its weights with those of the pool. */
  readonly compareEveryMs: number;
}

/**
 * A look at its health that is not answered within 5 s, twice, counts as its loss. Questions that compute wait behind what a server has to do, which may be much
 * after a restart of this service; and a server that was just started compiles at its first log-probabilities (on two cores of an AMD EPYC: 6 s with what an earlier
 * life compiled, a minute without). So those alone are given two minutes.
 */
export const SERVER_TIMES: ServerTimes = {
  connectMs: 5_000,
  answerMs: 30_000,
  computeMs: 120_000,
  loadMs: 120_000,
  healthEveryMs: 5_000,
  healthMs: 5_000,
  stallMs: 600_000,
  probeAfterMs: 5_000,
  compareEveryMs: 60_000,
};

export interface VllmServerOptions {
  readonly address: ServerAddress;
  readonly apiKey: string | null;
  /** The base model's name there; null: the only one that it has. */
  readonly model: string | null;
  readonly maxAdapters: number;
  readonly times: ServerTimes;
  /** See `ProbeOptions`. */
  readonly probeFolder: ProbeFolder | null;
  readonly pathOf: (digest: string) => string;
  /** Called with what it says of itself whenever it comes up. @throws {UnusableServer} where that is another model, say */
  readonly check: (server: VllmServer, facts: ServerFacts) => Promise<void>;
  /** Called behind that, and again and again. @throws {UnusableServer} where it computes with other weights than the pool; {ServerFailure} */
  readonly compare: (server: VllmServer, facts: ServerFacts) => Promise<void>;
  readonly log: (line: string) => void;
}

export type ServerState = BackendMember['state'];

const IN_USE: ReadonlySet<ServerState> = new Set(['up', 'failing']);
/** Longest wait between two probes of a server whose requests fail. */
const MAX_PROBE_AFTER_MS = 60_000;
/** Looks at its health that must fail one after the other before it counts as lost. */
const FAILURES_UNTIL_DOWN = 2;

/** One vLLM server: what it is, how it is, which adapters it has. */
export class VllmServer {
  readonly line: HttpLine;
  readonly adapters: LoadedAdapters;
  readonly #options: VllmServerOptions;
  readonly #closing = new AbortController();
  #facts: ServerFacts | null = null;
  #state: ServerState = 'down';
  #trouble: string | null = 'not checked yet';
  #kvUse: number | null = null;
  #processStart: number | null = null;
  #comparedAt = 0;
  #isComparing = false;
  #numFailures = 0;
  /** Aborted, with the reason, when it is lost. */
  #life = new AbortController();
  #timer: NodeJS.Timeout | null = null;
  #looking: Promise<void> | null = null;
  readonly #breaker: CircuitBreaker;
  numChoices = 0;
  /** Counted from the start of this process. */
  readonly counts = { requests: 0, failures: 0, losses: 0, tokens: 0 };

  constructor(options: VllmServerOptions) {
    this.#options = options;
    const { address, apiKey, times, maxAdapters, pathOf } = options;
    this.line = new HttpLine({ address, apiKey, connectMs: times.connectMs });
    this.adapters = new LoadedAdapters({ line: this.line, maxAdapters, timeoutMs: times.loadMs, pathOf });
    this.#breaker = new CircuitBreaker({
      probeAfterMs: () => times.probeAfterMs,
      maxProbeAfterMs: MAX_PROBE_AFTER_MS,
    });
  }

  get name(): string {
    return this.line.name;
  }

  get state(): ServerState {
    return this.#state;
  }

  /** Why it takes no requests, in one line with what to do; null while it does. */
  get trouble(): string | null {
    return this.#trouble;
  }

  /** Known once it has been up. */
  get facts(): ServerFacts | null {
    return this.#facts;
  }

  /** The part of its KV cache that is in use, 0 to 1, as of the last look at it; null where it does not say. */
  get kvUse(): number | null {
    return this.#kvUse;
  }

  /** Aborted when it is lost, or closed. */
  get life(): AbortSignal {
    return this.#life.signal;
  }

  get times(): ServerTimes {
    return this.#options.times;
  }

  /** Looks for the first time, and from now on again and again. Never rejects: {@link trouble} tells. */
  async start(): Promise<void> {
    await this.#look();
    this.#plan();
  }

  close(): void {
    this.#closing.abort();
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#life.abort(new EngineError('engine.aborted', 'the back end was closed'));
    this.line.close();
  }

  /** Records a request that ended well: a server whose requests failed takes them again. */
  succeed(): void {
    this.#breaker.succeed();
    if (this.#state === 'failing') this.#become('up', null);
  }

  /** Records a request that failed by the server's fault, and asks for its health at once. */
  suspect(failure: ServerFailure): void {
    this.counts.failures++;
    if (failure.kind === 'busy') {
      // 429: too many just now, of which the next look knows nothing.
      if (failure.status === 503) this.#become('draining', `${this.name} accepts no requests now (${failure.status})`);
      return;
    }
    if (failure.kind === 'key' || failure.kind === 'unknown_model') this.#become('unfit', failure.message);
    this.#breaker.fail();
    if (this.#state === 'up' && this.#breaker.isOpen) this.#become('failing', this.#troubleOf(failure));
    if (failure.status === null) this.#numFailures = Math.max(this.#numFailures, FAILURES_UNTIL_DOWN - 1);
    this.checkHealth();
  }

  /** Asks for its health at once. Never rejects. */
  checkHealth(): void {
    void this.#look();
  }

  #plan(): void {
    if (this.#closing.signal.aborted) return;
    this.#timer = setTimeout(() => void this.#look().then(() => this.#plan()), this.times.healthEveryMs);
    this.#timer.unref();
  }

  #look(): Promise<void> {
    this.#looking ??= this.#lookOnce().finally(() => (this.#looking = null));
    return this.#looking;
  }

  async #lookOnce(): Promise<void> {
    const { signal } = this.#closing;
    if (signal.aborted) return;
    try {
      const [, metrics] = await Promise.all([this.#askHealth(), this.#askMetrics()]);
      this.#kvUse = kvUseOf(metrics);
      this.#noteProcess(processStartOf(metrics));
      this.#numFailures = 0;
      if (this.#state === 'failing') await this.#probe();
      else if (this.#state !== 'up') await this.#comeUp();
      else if (performance.now() - this.#comparedAt >= this.times.compareEveryMs) void this.#compareAgain();
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof ServerFailure && error.kind === 'busy') {
        if (this.#state === 'up') this.#become('draining', `${this.name} accepts no requests now (${error.status})`);
        return;
      }
      this.#numFailures++;
      // What was never up is not worth a second look.
      if (!IN_USE.has(this.#state) || this.#numFailures >= FAILURES_UNTIL_DOWN)
        this.#lose(asUnusable(error, this.name));
      else void Promise.resolve().then(() => this.#look());
    }
  }

  /** Routers before vLLM may have no such route: then a question that every server answers. */
  async #askHealth(): Promise<void> {
    const limits = { timeoutMs: this.times.healthMs, signal: this.#closing.signal };
    try {
      await this.line.text('GET', '/health', null, limits);
    } catch (error) {
      if (!(error instanceof ServerFailure) || error.kind !== 'no_route') throw error;
      await this.line.text('GET', '/v1/models', null, limits);
    }
  }

  /** '' if it has none. */
  async #askMetrics(): Promise<string> {
    try {
      const limits = { timeoutMs: this.times.healthMs, signal: this.#closing.signal };
      return await this.line.text('GET', '/metrics', null, limits);
    } catch {
      // It has no such route, or its health says why it does not answer.
      return '';
    }
  }

  async #comeUp(): Promise<void> {
    try {
      // It may have been started anew: what it had is gone, or is found to be there.
      if (this.#state === 'down') this.adapters.forgetAll();
      await this.#examine();
      this.#breaker.succeed();
      this.#become('up', null);
    } catch (error) {
      if (!(error instanceof UnusableServer)) throw error;
      this.#become('unfit', error.message);
    }
  }

  /** Asks a server whose requests fail all that it was asked at its start, which computes too. */
  async #probe(): Promise<void> {
    if (!this.#breaker.isProbeDue) return;
    try {
      await this.#examine();
    } catch (error) {
      if (this.#closing.signal.aborted) return;
      const { cause, message } = asUnusable(error, this.name);
      this.#breaker.failProbe();
      // Without a failed request it is another model, say, which does not pass.
      if (cause === undefined) this.#become('unfit', message);
      return;
    }
    // A request may have succeeded meanwhile.
    this.#breaker.passProbe();
    if (this.#state === 'failing') this.#become('up', null);
  }

  /** @throws {UnusableServer} */
  async #examine(): Promise<void> {
    const { model, check, compare, times, probeFolder } = this.#options;
    const { answerMs: timeoutMs, computeMs } = times;
    const facts = await probeServer(this.line, {
      model,
      timeoutMs,
      computeMs,
      probeFolder,
      signal: this.#closing.signal,
    });
    if (this.#life.signal.aborted) this.#life = new AbortController();
    await check(this, facts);
    await compare(this, facts);
    if (facts.loadsAdapters) await this.#reconcileAdapters();
    this.#comparedAt = performance.now();
    this.#facts = facts;
  }

  /** Another process answers at its address, with adapters and perhaps a model of its own: it gets requests when it was asked what it is. */
  #noteProcess(startedAt: number | null): void {
    const isOther = this.#processStart !== null && startedAt !== null && startedAt !== this.#processStart;
    this.#processStart = startedAt ?? this.#processStart;
    if (!isOther) return;
    this.adapters.forgetAll();
    if (IN_USE.has(this.#state)) this.#become('draining', `${this.name} was restarted: checking its model`);
  }

  /**
   * Runs next to the looks at its health, since it waits for its turn there. Never rejects, as nothing waits for it. A comparison that is late proves
   * nothing: a server with a long queue is no broken one.
   */
  async #compareAgain(): Promise<void> {
    if (this.#isComparing || this.#facts === null) return;
    this.#isComparing = true;
    try {
      await this.#options.compare(this, this.#facts);
      if (this.#facts.loadsAdapters) await this.#reconcileAdapters();
    } catch (error) {
      if (this.#closing.signal.aborted || !IN_USE.has(this.#state)) return;
      if (error instanceof UnusableServer) return this.#expel(error.message);
      const failure = error instanceof ServerFailure ? error : this.#unreadable(error);
      if (failure.kind !== 'hangs') this.suspect(failure);
    } finally {
      this.#isComparing = false;
      this.#comparedAt = performance.now();
    }
  }

  async #reconcileAdapters(): Promise<void> {
    const limits = { timeoutMs: this.times.answerMs, signal: this.#closing.signal };
    this.adapters.reconcile(await readAdapterNames(this.line, limits));
  }

  /** Ends what it has, too: other weights sample it. */
  #expel(trouble: string): void {
    this.counts.losses++;
    this.#become('unfit', trouble);
    this.#life.abort(new ServerFailure('lost', `${this.name} was removed from the pool`));
  }

  #unreadable(cause: unknown): ServerFailure {
    return new ServerFailure('broken', asUnusable(cause, this.name).message, { cause });
  }

  #troubleOf({ message }: ServerFailure): string {
    const count = this.#breaker.numFailures;
    return `${count} requests to ${this.name} failed in a row, although its /health returns 200; the last error: ${message}. Check its log and restart it`;
  }

  #lose(why: UnusableServer): void {
    if (IN_USE.has(this.#state) || this.#state === 'draining') this.counts.losses++;
    this.#kvUse = null;
    this.#become('down', why.message);
    this.#life.abort(new ServerFailure('lost', `${this.name} was lost`));
  }

  #become(state: ServerState, trouble: string | null): void {
    if (this.#closing.signal.aborted) return;
    if (trouble !== null && trouble !== this.#trouble) this.#options.log(`vLLM: ${trouble}`);
    else if (state !== this.#state) this.#options.log(`vLLM: ${this.name} accepts requests`);
    this.#state = state;
    this.#trouble = trouble;
  }
}
