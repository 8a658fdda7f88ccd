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

/** Time limits and intervals, ms. */
export interface ServerTimes {
  readonly connectMs: number;
  /** Answer to a request that needs no computation. */
  readonly answerMs: number;
  /** Answer to a request that computes a few tokens. */
  readonly computeMs: number;
  readonly loadMs: number;
  /** Interval of health checks. */
  readonly healthEveryMs: number;
  readonly healthMs: number;
  /** A stream without a byte. */
  readonly stallMs: number;
  /** From the first failures of a server's requests to its first probe; doubles with each failed probe. */
  readonly probeAfterMs: number;
  /** Between two comparisons of its weights with those of the pool. */
  readonly compareEveryMs: number;
}

/**
 * A server counts as lost after two health checks without an answer within 5 s. Computing probes queue after
 * the server's work, which may be much after a restart of this service; and a new server compiles at its
 * first log-probabilities (on two cores of an AMD EPYC: 6 s with a compile cache, a minute without). So these
 * get two minutes.
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
  /** Name of the base model on the server; null: its only one. */
  readonly model: string | null;
  readonly maxAdapters: number;
  readonly times: ServerTimes;
  /** See `ProbeOptions`. */
  readonly probeFolder: ProbeFolder | null;
  readonly pathOf: (digest: string) => string;
  /**
   * Called with its properties whenever it comes up. @throws {UnusableServer} for example for another model
   */
  readonly check: (server: VllmServer, facts: ServerFacts) => Promise<void>;
  /**
   * Called after `check`, and then at intervals. @throws {UnusableServer} if its weights differ from the
   * pool's; {ServerFailure}
   */
  readonly compare: (server: VllmServer, facts: ServerFacts) => Promise<void>;
  readonly log: (line: string) => void;
}

export type ServerState = BackendMember['state'];

const IN_USE: ReadonlySet<ServerState> = new Set(['up', 'failing']);
/** Maximum interval of probes of a server whose requests fail. */
const MAX_PROBE_AFTER_MS = 60_000;
/** Consecutive failed health checks after which it counts as lost. */
const FAILURES_UNTIL_DOWN = 2;

export class VllmServer {
  readonly line: HttpLine;
  readonly adapters: LoadedAdapters;
  readonly #options: VllmServerOptions;
  readonly #closing = new AbortController();
  #facts: ServerFacts | null = null;
  #state: ServerState = 'down';
  #problem: string | null = 'not checked yet';
  #kvUse: number | null = null;
  #processStart: number | null = null;
  #isNewProcess = true;
  #comparedAt = 0;
  #isComparing = false;
  #numFailures = 0;
  /** Aborted with the reason if it is lost. */
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
    const life = (): AbortSignal => this.life;
    this.adapters = new LoadedAdapters({ line: this.line, maxAdapters, timeoutMs: times.loadMs, life, pathOf });
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

  /** Reason why it accepts no requests, in one line with the remedy; null while it does. */
  get problem(): string | null {
    return this.#problem;
  }

  /** Null until it has been up. */
  get facts(): ServerFacts | null {
    return this.#facts;
  }

  /** Used share of its KV cache, 0 to 1, as of the last health check; null if not reported. */
  get kvUse(): number | null {
    return this.#kvUse;
  }

  /** True until its current process has been compared. Before that, the process has no requests of ours. */
  get isNewProcess(): boolean {
    return this.#isNewProcess;
  }

  /** Aborted if it is lost or closed. */
  get life(): AbortSignal {
    return this.#life.signal;
  }

  get times(): ServerTimes {
    return this.#options.times;
  }

  /** Runs the first check, and further ones at intervals. Never rejects: see {@link problem}. */
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

  /** Records a successful request: a failing server accepts requests again. */
  succeed(): void {
    this.#breaker.succeed();
    if (this.#state === 'failing') this.#become('up', null);
  }

  /** Records a request that failed by the server's fault, and checks its health at once. */
  suspect(failure: ServerFailure): void {
    this.counts.failures++;
    if (failure.kind === 'busy') {
      // 429: too many requests for the moment, which a health check does not show.
      if (failure.status === 503) this.#become('draining', `${this.name} accepts no requests now (${failure.status})`);
      return;
    }
    if (failure.kind === 'key' || failure.kind === 'unknown_model') this.#become('unfit', failure.message);
    this.#breaker.fail();
    if (this.#state === 'up' && this.#breaker.isOpen) this.#become('failing', this.#problemOf(failure));
    if (failure.status === null) this.#numFailures = Math.max(this.#numFailures, FAILURES_UNTIL_DOWN - 1);
    this.checkHealth();
  }

  /** Checks its health at once. Never rejects. */
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
      else if (this.#state !== 'up') await this.#becomeUp();
      else if (performance.now() - this.#comparedAt >= this.times.compareEveryMs) void this.#compareAgain();
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof ServerFailure && error.kind === 'busy') {
        if (this.#state === 'up') this.#become('draining', `${this.name} accepts no requests now (${error.status})`);
        return;
      }
      this.#numFailures++;
      // A server that was never up gets no second check.
      if (!IN_USE.has(this.#state) || this.#numFailures >= FAILURES_UNTIL_DOWN)
        this.#lose(asUnusable(error, this.name));
      else void Promise.resolve().then(() => this.#look());
    }
  }

  /**
   * Checks its health. Routers before vLLM may lack the route; then sends a request that every server
   * answers.
   */
  async #askHealth(): Promise<void> {
    const limits = { timeoutMs: this.times.healthMs, signal: this.#closing.signal };
    try {
      await this.line.text('GET', '/health', null, limits);
    } catch (error) {
      if (!(error instanceof ServerFailure) || error.kind !== 'no_route') throw error;
      await this.line.text('GET', '/v1/models', null, limits);
    }
  }

  /** Returns '' if it has none. */
  async #askMetrics(): Promise<string> {
    try {
      const limits = { timeoutMs: this.times.healthMs, signal: this.#closing.signal };
      return await this.line.text('GET', '/metrics', null, limits);
    } catch {
      // It has no such route, or the health check reports the fault.
      return '';
    }
  }

  async #becomeUp(): Promise<void> {
    try {
      // After a possible restart its adapters are gone, or will be found.
      if (this.#state === 'down') this.adapters.forgetAll();
      await this.#examine();
      this.#breaker.succeed();
      this.#become('up', null);
    } catch (error) {
      if (!(error instanceof UnusableServer)) throw error;
      this.#become('unfit', error.message);
    }
  }

  /** Probes a failing server with the checks of its start, which compute, too. */
  async #probe(): Promise<void> {
    if (!this.#breaker.isProbeDue) return;
    try {
      await this.#examine();
    } catch (error) {
      if (this.#closing.signal.aborted) return;
      const { cause, message } = asUnusable(error, this.name);
      this.#breaker.failProbe();
      // Without a failed request it is, for example, another model, which is permanent.
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
    this.#isNewProcess = false;
    if (facts.loadsAdapters) await this.#reconcileAdapters();
    this.#comparedAt = performance.now();
    this.#facts = facts;
  }

  /**
   * Handles another process at its address, which may have other adapters and another model: it gets requests
   * only after it has been checked.
   */
  #noteProcess(startedAt: number | null): void {
    const isOther = this.#processStart !== null && startedAt !== null && startedAt !== this.#processStart;
    this.#processStart = startedAt ?? this.#processStart;
    if (!isOther) return;
    this.#isNewProcess = true;
    this.adapters.forgetAll();
    if (IN_USE.has(this.#state)) this.#become('draining', `${this.name} was restarted: checking its model`);
  }

  /**
   * Runs next to the health checks, because it queues on the server. Never rejects, because nothing waits for
   * it. A late comparison proves nothing: a server with a long queue is not broken.
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

  /** Removes the server and aborts its requests, which sample from other weights. */
  #expel(problem: string): void {
    this.counts.losses++;
    this.#become('unfit', problem);
    this.#life.abort(new ServerFailure('lost', `${this.name} was removed from the pool`));
  }

  #unreadable(cause: unknown): ServerFailure {
    return new ServerFailure('broken', asUnusable(cause, this.name).message, { cause });
  }

  #problemOf({ message }: ServerFailure): string {
    const count = this.#breaker.numFailures;
    return `${count} requests to ${this.name} failed in a row, although its /health returns 200; the last error: ${message}. Check its log and restart it`;
  }

  #lose(why: UnusableServer): void {
    if (IN_USE.has(this.#state) || this.#state === 'draining') this.counts.losses++;
    this.#kvUse = null;
    // Without a start time, the next answer may come from another process.
    this.#isNewProcess ||= this.#processStart === null;
    this.#become('down', why.message);
    this.#life.abort(new ServerFailure('lost', `${this.name} was lost`));
  }

  #become(state: ServerState, problem: string | null): void {
    if (this.#closing.signal.aborted) return;
    if (problem !== null && problem !== this.#problem) this.#options.log(`vLLM: ${problem}`);
    else if (state !== this.#state) this.#options.log(`vLLM: ${this.name} accepts requests`);
    this.#state = state;
    this.#problem = problem;
  }
}
