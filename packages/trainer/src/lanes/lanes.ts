import { setImmediate as nextTurn } from 'node:timers/promises';
import { ComputeTurns } from '../model/compute-turns.ts';
import type { GraphTiming, LanePass, LaneSetup, LaneTurns } from './lane-compute.ts';
import { LaneCompute } from './lane-compute.ts';
import { LaneProgress, LaneStopped } from './lane-progress.ts';
import type { LaneStep } from './lane-schedule.ts';
import type { LaneThread, LaneThreads } from './lane-threads.ts';
import type { ComputeOptions } from '../model/policy-model.ts';

// Time that the calling thread polls before it sleeps until an event.
const SPIN_MS = 2;

/**
 * Parallel threads: the calling one, and a pooled one per further lane. One graph run on two threads was 1.3
 * times as fast as on one, because small products, copies and element-wise operators hardly gain. Two parallel
 * runs on half the tokens each gain nearly two.
 */
export class Lanes {
  readonly #setup: LaneSetup;
  readonly #own: LaneCompute;
  readonly #threads: LaneThreads;
  readonly #others: LaneThread[] = [];
  readonly #numLanes: number;
  readonly #progress: LaneProgress;

  /** @param threads taken by the first pass */
  constructor(setup: LaneSetup, numLanes: number, threads: LaneThreads) {
    this.#setup = setup;
    this.#numLanes = numLanes;
    this.#threads = threads;
    this.#own = new LaneCompute(setup);
    this.#progress = LaneProgress.create(numLanes);
  }

  get length(): number {
    return this.#numLanes;
  }

  /** @param passOf until the next `begin` */
  begin(passOf: (lane: number) => LanePass): void {
    while (this.#others.length < this.#numLanes - 1)
      this.#others.push(this.#threads.take(this.#setup, this.#others.length + 1, this.#progress));
    this.#own.begin(passOf(0));
    this.#others.forEach((thread, index) => thread.begin(passOf(index + 1)));
  }

  /** @throws {TrainerError} `trainer.cancelled`; no lane computes any more then */
  async run(steps: readonly LaneStep[], options: ComputeOptions): Promise<readonly GraphTiming[]> {
    const turns = new ComputeTurns(options);
    await turns.begin();
    try {
      this.#progress.reset();
      const others = this.#others.map((thread) => thread.run(steps));
      const all = await Promise.allSettled([this.#lead(steps, turns), ...others]);
      const failures = all.flatMap((result) => (result.status === 'rejected' ? [result.reason as unknown] : []));
      // A stopped lane does not know the reason.
      if (failures.length > 0) throw failures.find((reason) => !(reason instanceof LaneStopped)) ?? failures[0];
      return all.flatMap((result) => (result.status === 'fulfilled' ? result.value : []));
    } finally {
      turns.finish();
    }
  }

  close(): void {
    this.#own.close();
    for (const thread of this.#others) this.#threads.giveBack(thread);
    this.#others.length = 0;
  }

  /** The first lane shares the cores with other users for all lanes. */
  async #lead(steps: readonly LaneStep[], turns: ComputeTurns): Promise<readonly GraphTiming[]> {
    const waitFor = (condition: () => boolean) => this.#waitUntil(condition, () => this.#takeTurn(turns));
    const own: LaneTurns = {
      ready: ({ waits }) => waitFor(() => this.#progress.isReady(0, waits)),
      piece: async (work) => {
        // A graph run blocks the thread: the process handles messages between two runs.
        await nextTurn();
        await this.#takeTurn(turns);
        work();
      },
      ended: () => this.#progress.endStep(0),
    };
    try {
      const timings = await this.#own.run(steps, own);
      // The cores must be shared until the last lane has finished.
      await waitFor(() => this.#progress.isReady(0, [{ lanes: 'higher', step: steps.length - 1 }]));
      return timings;
    } catch (error) {
      this.#progress.stop();
      throw error;
    }
  }

  async #takeTurn(turns: ComputeTurns): Promise<void> {
    if (this.#progress.isStopped) throw new LaneStopped();
    turns.throwIfCancelled();
    if (!turns.isOver) return;
    this.#progress.pause();
    await this.#waitUntil(() => !this.#progress.isAnotherComputing());
    if (this.#progress.isStopped) throw new LaneStopped();
    turns.finish();
    await turns.begin();
    if (this.#progress.isStopped) throw new LaneStopped();
    this.#progress.grant();
  }

  /** Lets the process handle messages, such as a cancellation. */
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
