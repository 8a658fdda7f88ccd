import { Worker } from 'node:worker_threads';
import { TrainerError } from '../errors.ts';
import type { GraphTiming, LaneOperation, LanePass, LaneSetup } from './lane-compute.ts';
import { LaneCompute } from './lane-compute.ts';
import type { LaneAnswer, LaneCommand, LaneThreadData } from './lane-thread.ts';

// A run takes 10–100 ms; one that hangs must not keep a process from ending.
const MAX_EXIT_WAIT_MS = 2000;

/**
 * Threads that compute side by side: the calling one, and a worker for each further lane.
 *
 * One graph run on two threads was 1.3 times as fast as on one: small products, copies and element-wise operators hardly gain. Two runs
 * side by side, each on half the tokens, gain nearly two.
 */
export class Lanes {
  readonly #setup: LaneSetup;
  readonly #own: LaneCompute;
  readonly #workers: WorkerLane[] = [];
  readonly #numLanes: number;

  /** @param numLanes at least 1. Workers start with the first pass. */
  constructor(setup: LaneSetup, numLanes: number) {
    this.#setup = setup;
    this.#numLanes = numLanes;
    this.#own = new LaneCompute(setup);
  }

  get length(): number {
    return this.#numLanes;
  }

  /** @param passOf what each lane works on, until the next `begin` */
  begin(passOf: (lane: number) => LanePass): void {
    while (this.#workers.length < this.#numLanes - 1) this.#workers.push(new WorkerLane(this.#setup));
    this.#own.begin(passOf(0));
    this.#workers.forEach((worker, index) => worker.begin(passOf(index + 1)));
  }

  /** Resolves when every lane has done the operations on its parts of that round. */
  async run(operations: readonly LaneOperation[], round: number): Promise<readonly GraphTiming[]> {
    // Workers first: a graph run blocks the thread that calls it.
    const others = this.#workers.map((worker) => worker.run(operations, round));
    const all = await Promise.allSettled([this.#own.run(operations, round), ...others]);
    return all.flatMap((result) => {
      if (result.status === 'rejected') throw result.reason;
      return result.value;
    });
  }

  close(): void {
    this.#own.close();
    for (const worker of this.#workers) worker.close();
    this.#workers.length = 0;
  }
}

class WorkerLane {
  readonly #worker: Worker;
  #pending: PromiseWithResolvers<readonly GraphTiming[]> | null = null;
  #failure: unknown = null;
  /** [1] 1 while the worker computes. */
  readonly #busy = new Int32Array(new SharedArrayBuffer(4));
  /** A thread that is ended inside ONNX Runtime aborts the process; so the end of the process waits for the run. */
  readonly #waitAtExit = () => void Atomics.wait(this.#busy, 0, 1, MAX_EXIT_WAIT_MS);

  constructor(setup: LaneSetup) {
    const workerData: LaneThreadData = { setup, busy: this.#busy };
    // The options this process was started with (`--eval`, say) are not the thread's.
    this.#worker = new Worker(new URL('./lane-thread.ts', import.meta.url), { workerData, execArgv: [] });
    process.on('exit', this.#waitAtExit);
    // Only a run in progress keeps the process alive.
    this.#worker.unref();
    this.#worker.on('message', (answer: LaneAnswer) => {
      if ('error' in answer) this.#settle((pending) => pending.reject(answer.error));
      else this.#settle((pending) => pending.resolve(answer.timings));
    });
    this.#worker.on('error', (error) => this.#fail(error));
    this.#worker.on('exit', () => {
      process.off('exit', this.#waitAtExit);
      Atomics.store(this.#busy, 0, 0);
      this.#fail(new TrainerError('trainer.internal', 'a thread of the trainer ended while it was needed'));
    });
  }

  begin(pass: LanePass): void {
    this.#send({ kind: 'begin', pass });
  }

  async run(operations: readonly LaneOperation[], round: number): Promise<readonly GraphTiming[]> {
    if (this.#failure !== null) throw this.#failure;
    this.#pending = Promise.withResolvers();
    this.#worker.ref();
    Atomics.store(this.#busy, 0, 1);
    this.#send({ kind: 'run', operations, round });
    return await this.#pending.promise;
  }

  close(): void {
    this.#send({ kind: 'close' });
  }

  #send(command: LaneCommand): void {
    this.#worker.postMessage(command);
  }

  #fail(error: unknown): void {
    this.#failure ??= error;
    this.#settle((pending) => pending.reject(error));
  }

  #settle(how: (pending: PromiseWithResolvers<readonly GraphTiming[]>) => void): void {
    const pending = this.#pending;
    this.#pending = null;
    this.#worker.unref();
    if (pending !== null) how(pending);
  }
}
