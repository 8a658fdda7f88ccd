import { Worker } from 'node:worker_threads';
import { ConstraintError, type ConstraintErrorCode } from '../contract/constraint-error.ts';
import type { GrammarSource } from '../llguidance/llguidance.ts';
import type { Sandbox, SandboxBase } from '../llguidance/sandbox.ts';

export type Verdict = { isValid: true } | { isValid: false; code: ConstraintErrorCode; message: string };

/** The thread sends the parts of its instance once it can take a source, then a verdict on each. */
export type Message = { readonly base: SandboxBase } | Verdict;

interface Job {
  readonly source: GrammarSource;
  readonly settle: (verdict: Verdict) => void;
  readonly fail: (error: unknown) => void;
}

/** Multiple of the limit, for waits for a core. */
const MAX_WAIT = 10;

/**
 * Compiles sources in a separate thread, which is killed if one computes for too long. It has less stack than
 * the main thread: a source that compiles there compiles here.
 */
export class Validator {
  readonly #sandbox: Sandbox;
  readonly #timeoutMs: number;
  readonly #waiting: Job[] = [];
  #running: Job | undefined;
  #worker: Worker | undefined;
  #isReady = false;
  #numThreads = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(sandbox: Sandbox, timeoutMs: number) {
    this.#sandbox = sandbox;
    this.#timeoutMs = timeoutMs;
  }

  get numThreads(): number {
    return this.#numThreads;
  }

  get isBusy(): boolean {
    return this.#running !== undefined || this.#waiting.length > 0;
  }

  /** @throws the signal's reason if aborted before the source's turn */
  validate(source: GrammarSource, signal?: AbortSignal): Promise<Verdict> {
    signal?.throwIfAborted();
    const { promise, resolve, reject } = Promise.withResolvers<Verdict>();
    const job: Job = { source, settle: resolve, fail: reject };
    const abort = () => {
      const index = this.#waiting.indexOf(job);
      if (index >= 0) this.#waiting.splice(index, 1);
      reject(signal?.reason);
    };
    signal?.addEventListener('abort', abort, { once: true });
    this.#waiting.push(job);
    this.#next();
    return promise.finally(() => signal?.removeEventListener('abort', abort));
  }

  close(): void {
    this.#replaceWorker();
    const jobs = [...(this.#running === undefined ? [] : [this.#running]), ...this.#waiting.splice(0)];
    this.#running = undefined;
    for (const job of jobs) job.fail(new Error('the validator was closed'));
  }

  #next(): void {
    if (this.#running !== undefined || this.#waiting.length === 0) return;
    const worker = (this.#worker ??= this.#start());
    worker.ref();
    if (!this.#isReady) return;
    const job = this.#waiting.shift()!;
    this.#running = job;
    // If the thread has ended meanwhile, its error event reports it.
    const usedBefore = cpuMs(worker).catch(() => 0);
    this.#watch(job, this.#timeoutMs, async () => (await cpuMs(worker)) - (await usedBefore));
    worker.postMessage(job.source);
  }

  /** A start took five seconds on a busy machine. An idle thread does not keep the process alive. */
  #startAhead(): void {
    this.#worker ??= this.#start();
    if (!this.isBusy) this.#worker.unref();
  }

  #start(): Worker {
    this.#numThreads++;
    const worker = new Worker(new URL('./validation-worker.ts', import.meta.url), {
      workerData: this.#sandbox.origin,
      // Leaves about 0.8 MiB; Node's main thread has 0.96.
      resourceLimits: { stackSizeMb: 1 },
    });
    worker.on('message', (message: Message) => {
      if (worker !== this.#worker) return;
      if ('base' in message) {
        this.#sandbox.adopt(message.base);
        this.#isReady = true;
      } else {
        this.#finish(message);
      }
      this.#next();
    });
    worker.on('error', (error) => {
      if (worker !== this.#worker) return;
      this.#replaceWorker();
      const job = this.#running ?? this.#waiting.shift();
      this.#running = undefined;
      job?.fail(error);
      this.#next();
    });
    return worker;
  }

  #finish(verdict: Verdict): void {
    clearTimeout(this.#timer);
    const job = this.#running;
    this.#running = undefined;
    if (this.#waiting.length === 0) this.#worker?.unref();
    job?.settle(verdict);
  }

  /**
   * Ends a job that computes for longer than the limit. Wall time is no measure: while llama.cpp has the cores, a
   * source of a few milliseconds can take seconds, and after a busy phase timers run before a verdict that has
   * already arrived.
   */
  #watch(job: Job, inMs: number, usedMs: () => Promise<number>, startedAt = performance.now()): void {
    this.#timer = setTimeout(async () => {
      // A thread that does not answer is stuck.
      const used = await usedMs().catch(() => Infinity);
      if (this.#running !== job) return;
      const hasWaited = performance.now() - startedAt >= MAX_WAIT * this.#timeoutMs;
      if (hasWaited || used >= this.#timeoutMs) this.#timeOut();
      else this.#watch(job, this.#timeoutMs - used, usedMs, startedAt);
    }, inMs);
  }

  #timeOut(): void {
    this.#replaceWorker();
    this.#startAhead();
    const message = `the constraint takes more than ${this.#timeoutMs} ms to compile`;
    this.#finish({ isValid: false, code: 'constraint.timeout', message });
    this.#next();
  }

  #replaceWorker(): void {
    clearTimeout(this.#timer);
    const worker = this.#worker;
    this.#worker = undefined;
    this.#isReady = false;
    void worker?.terminate();
  }
}

/** Processor time. */
async function cpuMs(worker: Worker): Promise<number> {
  const { user, system } = await worker.cpuUsage();
  return (user + system) / 1000;
}

/** @throws {ConstraintError} for an invalid verdict */
export function enforce(verdict: Verdict): void {
  if (!verdict.isValid) throw new ConstraintError(verdict.code, verdict.message);
}
