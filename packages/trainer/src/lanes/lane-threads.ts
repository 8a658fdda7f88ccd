import { Worker } from 'node:worker_threads';
import { TrainerError } from '../contract/errors.ts';
import type { GraphTiming, LanePass, LaneSetup } from './lane-compute.ts';
import { type LaneProgress, LaneStopped } from './lane-progress.ts';
import type { LaneStep } from './lane-schedule.ts';
import type { LaneAnswer, LaneCommand } from './lane-thread.ts';

// A run takes 10–100 ms; a hung one must not keep a process from ending.
const MAX_EXIT_WAIT_MS = 2000;

/**
 * Pool for successive policies. koffi's setup for a thread outlives it: 3 MB of addresses in three mappings, of
 * which a process may have 65,530, and about 130 KB of memory.
 */
export class LaneThreads {
  readonly #idle: LaneThread[] = [];
  #isClosed = false;

  /** Threads must be given back. @param progress of the lanes */
  take(setup: LaneSetup, lane: number, progress: LaneProgress): LaneThread {
    let thread = this.#idle.pop();
    while (thread?.isUsable === false) thread = this.#idle.pop();
    thread ??= new LaneThread(progress);
    thread.open(setup, lane, progress);
    return thread;
  }

  /** The thread stops after its current run. */
  giveBack(thread: LaneThread): void {
    thread.close();
    if (thread.isUsable && !this.#isClosed) this.#idle.push(thread);
    else thread.end();
  }

  /** Threads in use end when they are given back. */
  close(): void {
    this.#isClosed = true;
    for (const thread of this.#idle.splice(0)) thread.end();
  }
}

/** Computes one lane at a time. */
export class LaneThread {
  readonly #worker: Worker;
  #lane = 0;
  #progress: LaneProgress;
  #pending: PromiseWithResolvers<readonly GraphTiming[]> | null = null;
  #failure: unknown = null;
  /** A thread ended inside ONNX Runtime aborts the process, so the end of the process waits for the run. */
  readonly #waitAtExit = () => {
    this.#progress.stop();
    this.#progress.waitForEnd(this.#lane, MAX_EXIT_WAIT_MS);
  };

  constructor(progress: LaneProgress) {
    this.#progress = progress;
    // The process's start options (`--eval`, for example) do not apply to the thread.
    this.#worker = new Worker(new URL('./lane-thread.ts', import.meta.url), {
      execArgv: ['--conditions=@trainyard/source'],
    });
    process.on('exit', this.#waitAtExit);
    // Only a run in progress keeps the process alive.
    this.#worker.unref();
    this.#worker.on('message', (answer: LaneAnswer) => {
      if ('timings' in answer) this.#settle((pending) => pending.resolve(answer.timings));
      else this.#stopped((pending) => pending.reject(answer.stopped ? new LaneStopped() : answer.error));
    });
    this.#worker.on('error', (error) => this.#fail(error));
    this.#worker.on('messageerror', (error) => this.#fail(error));
    this.#worker.on('exit', () => {
      process.off('exit', this.#waitAtExit);
      this.#fail(new TrainerError('trainer.internal', 'a thread of the trainer ended while it was needed'));
    });
  }

  /** True if it can be opened (again): alive, and without a pending answer. */
  get isUsable(): boolean {
    return this.#failure === null && this.#pending === null;
  }

  /** @param progress of the lanes */
  open(setup: LaneSetup, lane: number, progress: LaneProgress): void {
    this.#lane = lane;
    this.#progress = progress;
    this.#send({ kind: 'open', setup, lane, cells: progress.cells });
  }

  begin(pass: LanePass): void {
    this.#send({ kind: 'begin', pass });
  }

  async run(steps: readonly LaneStep[]): Promise<readonly GraphTiming[]> {
    if (this.#failure !== null) {
      this.#progress.stop();
      throw this.#failure;
    }
    this.#pending = Promise.withResolvers();
    this.#worker.ref();
    this.#send({ kind: 'run', steps });
    return await this.#pending.promise;
  }

  close(): void {
    this.#send({ kind: 'close' });
  }

  end(): void {
    this.#send({ kind: 'end' });
  }

  #send(command: LaneCommand): void {
    this.#worker.postMessage(command);
  }

  #fail(error: unknown): void {
    this.#failure ??= error;
    // The thread has stopped; the other lanes must not wait for it.
    this.#progress.end(this.#lane);
    this.#stopped((pending) => pending.reject(this.#failure));
  }

  /** The other lanes must not wait for a lane that ends early. */
  #stopped(answer: (pending: PromiseWithResolvers<readonly GraphTiming[]>) => void): void {
    if (this.#pending !== null) this.#progress.stop();
    this.#settle(answer);
  }

  #settle(answer: (pending: PromiseWithResolvers<readonly GraphTiming[]>) => void): void {
    this.#worker.unref();
    if (this.#pending !== null) answer(this.#pending);
    this.#pending = null;
  }
}
