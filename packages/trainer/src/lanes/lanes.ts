import { setImmediate as nextTurn } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { TrainerError } from '../contract/errors.ts';
import { ComputeTurns } from './compute-turns.ts';
import type { GraphTiming, LanePass, LaneSetup, LaneTurns } from './lane-compute.ts';
import { LaneCompute } from './lane-compute.ts';
import { LaneProgress, LaneStopped } from './lane-progress.ts';
import type { LaneStep } from './lane-schedule.ts';
import type { LaneAnswer, LaneCommand, LaneThreadData } from './lane-thread.ts';
import type { ComputeOptions } from '../model/policy-model.ts';

// A run takes 10–100 ms; one that hangs must not keep a process from ending.
const MAX_EXIT_WAIT_MS = 2000;
// How long the calling thread looks again and again for what it waits for before it sleeps until told.
const SPIN_MS = 2;

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
  readonly #progress: LaneProgress;

  /** @param numLanes at least 1. Workers start with the first pass. */
  constructor(setup: LaneSetup, numLanes: number) {
    this.#setup = setup;
    this.#numLanes = numLanes;
    this.#own = new LaneCompute(setup);
    this.#progress = LaneProgress.create(numLanes);
  }

  get length(): number {
    return this.#numLanes;
  }

  /** @param passOf what each lane works on, until the next `begin` */
  begin(passOf: (lane: number) => LanePass): void {
    while (this.#workers.length < this.#numLanes - 1)
      this.#workers.push(new WorkerLane(this.#setup, this.#workers.length + 1, this.#progress));
    this.#own.begin(passOf(0));
    this.#workers.forEach((worker, index) => worker.begin(passOf(index + 1)));
  }

  /**
   * Resolves when every lane has done every step.
   * @throws {TrainerError} `trainer.cancelled`; no lane computes any more then
   */
  async run(steps: readonly LaneStep[], options: ComputeOptions): Promise<readonly GraphTiming[]> {
    const turns = new ComputeTurns(options);
    await turns.begin();
    try {
      this.#progress.reset();
      const others = this.#workers.map((worker) => worker.run(steps));
      const all = await Promise.allSettled([this.#lead(steps, turns), ...others]);
      const failures = all.flatMap((result) => (result.status === 'rejected' ? [result.reason as unknown] : []));
      // A lane that was stopped says nothing about why.
      if (failures.length > 0) throw failures.find((reason) => !(reason instanceof LaneStopped)) ?? failures[0];
      return all.flatMap((result) => (result.status === 'fulfilled' ? result.value : []));
    } finally {
      turns.finish();
    }
  }

  close(): void {
    this.#own.close();
    for (const worker of this.#workers) worker.close();
    this.#workers.length = 0;
  }

  /** The first lane's part. It alone talks to whoever shares the cores, on behalf of all. */
  async #lead(steps: readonly LaneStep[], turns: ComputeTurns): Promise<readonly GraphTiming[]> {
    const waitFor = (condition: () => boolean) => this.#waitUntil(condition, () => this.#takeTurn(turns));
    const own: LaneTurns = {
      ready: ({ waits }) => waitFor(() => this.#progress.isReady(0, waits)),
      piece: async (work) => {
        // A graph run blocks the thread: messages of the process are heard between two of them.
        await nextTurn();
        await this.#takeTurn(turns);
        work();
      },
      ended: () => this.#progress.endStep(0),
    };
    try {
      const timings = await this.#own.run(steps, own);
      // Until the last lane has ended the cores are still to be shared.
      await waitFor(() => this.#progress.isReady(0, [{ lanes: 'higher', step: steps.length - 1 }]));
      return timings;
    } catch (error) {
      this.#progress.stop();
      throw error;
    }
  }

  /** Hands the cores over when somebody waits for them. */
  async #takeTurn(turns: ComputeTurns): Promise<void> {
    if (this.#progress.isStopped) throw new LaneStopped();
    turns.throwIfCancelled();
    if (!turns.isOver) return;
    this.#progress.pause();
    await this.#waitUntil(() => !this.#progress.othersCompute());
    if (this.#progress.isStopped) throw new LaneStopped();
    turns.finish();
    await turns.begin();
    if (this.#progress.isStopped) throw new LaneStopped();
    this.#progress.grant();
  }

  /** The process hears its messages meanwhile: somebody may want the cores, or cancel. */
  async #waitUntil(condition: () => boolean, meanwhile: () => Promise<void> = async () => {}): Promise<void> {
    const spinsUntil = performance.now() + SPIN_MS;
    for (;;) {
      const seen = this.#progress.numEvents;
      if (condition()) return;
      await meanwhile();
      if (performance.now() < spinsUntil) await nextTurn();
      else await this.#progress.nextEvent(seen);
    }
  }
}

class WorkerLane {
  readonly #worker: Worker;
  readonly #lane: number;
  readonly #progress: LaneProgress;
  #pending: PromiseWithResolvers<readonly GraphTiming[]> | null = null;
  #failure: unknown = null;
  /** A thread that is ended inside ONNX Runtime aborts the process; so the end of the process waits for the run. */
  readonly #waitAtExit = () => {
    this.#progress.stop();
    this.#progress.waitForEnd(this.#lane, MAX_EXIT_WAIT_MS);
  };

  constructor(setup: LaneSetup, lane: number, progress: LaneProgress) {
    const workerData: LaneThreadData = { setup, lane, cells: progress.cells };
    this.#lane = lane;
    this.#progress = progress;
    // The options this process was started with (`--eval`, say) are not the thread's.
    this.#worker = new Worker(new URL('./lane-thread.ts', import.meta.url), {
      workerData,
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

  #send(command: LaneCommand): void {
    this.#worker.postMessage(command);
  }

  #fail(error: unknown): void {
    this.#failure ??= error;
    // Whatever it was doing, it does it no more; the others must not wait for it.
    this.#progress.end(this.#lane);
    this.#stopped((pending) => pending.reject(this.#failure));
  }

  /** A lane that ends early must not be waited for. */
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
