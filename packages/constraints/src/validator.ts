import { Worker } from 'node:worker_threads';
import { afterComputing } from './compute-time-limit.ts';
import { ConstraintError, type ConstraintErrorCode } from './constraint-error.ts';
import type { GrammarSource } from './llguidance.ts';
import type { Sandbox } from './sandbox.ts';

/** What the worker answers to a source. */
export type Verdict = { isValid: true } | { isValid: false; code: ConstraintErrorCode; message: string };

/** What the worker sends when it can take a source. */
export const READY = 'ready';

interface Job {
  readonly source: GrammarSource;
  readonly settle: (verdict: Verdict) => void;
  readonly fail: (error: unknown) => void;
}

/**
 * Compiles sources in a thread of its own, one after the other, and kills that thread when one computes too long. It has less stack
 * than the main thread, so that what compiles there compiles here.
 */
export class Validator {
  readonly #sandbox: Sandbox;
  readonly #timeoutMs: number;
  readonly #waiting: Job[] = [];
  #running: Job | undefined;
  #worker: Worker | undefined;
  #isReady = false;
  #stopWatching: (() => void) | undefined;

  constructor(sandbox: Sandbox, timeoutMs: number) {
    this.#sandbox = sandbox;
    this.#timeoutMs = timeoutMs;
  }

  /** @throws the signal's reason when it is aborted before the source's turn */
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
    this.#running = this.#waiting.shift()!;
    this.#stopWatching = afterComputing(worker, this.#timeoutMs, () => this.#timeOut());
    worker.postMessage(this.#running.source);
  }

  #start(): Worker {
    const { module, snapshot } = this.#sandbox;
    const worker = new Worker(new URL('./validation-worker.ts', import.meta.url), {
      workerData: { module, snapshot },
      // Leaves about 0.8 MiB; the main thread of Node has 0.96.
      resourceLimits: { stackSizeMb: 1 },
    });
    worker.on('message', (message: Verdict | typeof READY) => {
      if (worker !== this.#worker) return;
      if (message === READY) this.#isReady = true;
      else this.#finish(message);
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
    this.#stopWatching?.();
    const job = this.#running;
    this.#running = undefined;
    if (this.#waiting.length === 0) this.#worker?.unref();
    job?.settle(verdict);
  }

  #timeOut(): void {
    this.#replaceWorker();
    const message = `the constraint takes more than ${this.#timeoutMs} ms to compile`;
    this.#finish({ isValid: false, code: 'constraint.timeout', message });
    this.#next();
  }

  #replaceWorker(): void {
    this.#stopWatching?.();
    const worker = this.#worker;
    this.#worker = undefined;
    this.#isReady = false;
    void worker?.terminate();
  }
}

/** @throws {ConstraintError} what the verdict says */
export function enforce(verdict: Verdict): void {
  if (!verdict.isValid) throw new ConstraintError(verdict.code, verdict.message);
}
