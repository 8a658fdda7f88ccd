import type { LaneWait } from './lane-schedule.ts';

const EVENTS = 0;
const PERMISSION = 1;
const LANES = 2;

const PAUSED = 0;
const GRANTED = 1;
const STOPPED = 2;

// Steps of lanes end within fractions of a millisecond of each other more often than not; waking a thread that sleeps takes as long.
const SPIN_MS = 0.5;
// Bounds what a lost wake-up could cost; none is known.
const SLEEP_MS = 100;

/** Thrown in a lane when another one has failed or the pass was cancelled. */
export class LaneStopped extends Error {
  override readonly name = 'LaneStopped';
}

/**
 * The progress that the lanes of a pass publish to each other, in memory that all threads share: how many steps each has ended, whether it computes right now,
 * and whether they may. Messages between threads took a millisecond each (docs/lab/experiments.md).
 */
export class LaneProgress {
  /** [2 + 2 · lanes] events, permission, steps ended by lane, 1 by lane while it computes. */
  readonly cells: Int32Array;
  readonly #numLanes: number;

  constructor(cells: Int32Array) {
    this.cells = cells;
    this.#numLanes = (cells.length - LANES) / 2;
  }

  static create(numLanes: number): LaneProgress {
    return new LaneProgress(new Int32Array(new SharedArrayBuffer(4 * (LANES + 2 * numLanes))));
  }

  /** Before a pass, when no lane computes. */
  reset(): void {
    for (let lane = 0; lane < this.#numLanes; lane++) Atomics.store(this.cells, LANES + lane, 0);
    Atomics.store(this.cells, PERMISSION, GRANTED);
    this.#announce();
  }

  /** After a pause. A pass that was stopped stays stopped. */
  grant(): void {
    this.#change(PAUSED, GRANTED);
  }

  /** Lanes end what they compute and begin nothing new; see `othersCompute`. */
  pause(): void {
    this.#change(GRANTED, PAUSED);
  }

  stop(): void {
    Atomics.store(this.cells, PERMISSION, STOPPED);
    this.#announce();
  }

  get isPaused(): boolean {
    return Atomics.load(this.cells, PERMISSION) === PAUSED;
  }

  get isStopped(): boolean {
    return Atomics.load(this.cells, PERMISSION) === STOPPED;
  }

  endStep(lane: number): void {
    Atomics.add(this.cells, LANES + lane, 1);
    this.#announce();
  }

  /** Whether the lanes that a step of `lane` waits for are far enough. */
  isReady(lane: number, waits: readonly LaneWait[]): boolean {
    return waits.every(({ lanes, step }) => {
      const first = lanes === 'lower' ? 0 : lane + 1;
      const end = lanes === 'lower' ? lane : this.#numLanes;
      for (let other = first; other < end; other++) if (Atomics.load(this.cells, LANES + other) <= step) return false;
      return true;
    });
  }

  /** False while paused. After true `end` must follow. */
  tryBegin(lane: number): boolean {
    // First the claim, then the look: `pause` does the reverse, so one of the two sees the other.
    Atomics.store(this.cells, this.#computing(lane), 1);
    if (Atomics.load(this.cells, PERMISSION) === GRANTED) return true;
    this.end(lane);
    return false;
  }

  end(lane: number): void {
    const cell = this.#computing(lane);
    Atomics.store(this.cells, cell, 0);
    Atomics.notify(this.cells, cell);
    this.#announce();
  }

  /** Whether any lane but the first computes. */
  othersCompute(): boolean {
    for (let lane = 1; lane < this.#numLanes; lane++)
      if (Atomics.load(this.cells, this.#computing(lane)) === 1) return true;
    return false;
  }

  /** Blocks until the lane computes no more. */
  waitForEnd(lane: number, maxMs: number): void {
    Atomics.wait(this.cells, this.#computing(lane), 1, maxMs);
  }

  /** Blocks the thread until the condition, which depends on nothing but this progress, holds. */
  waitUntil(condition: () => boolean): void {
    for (;;) {
      const giveUpAt = performance.now() + SPIN_MS;
      while (performance.now() < giveUpAt) if (condition()) return;
      const seen = Atomics.load(this.cells, EVENTS);
      if (condition()) return;
      Atomics.wait(this.cells, EVENTS, seen, SLEEP_MS);
    }
  }

  /** Resolves at the next event, or at a time-out. */
  async nextEvent(seen: number): Promise<void> {
    const { value } = Atomics.waitAsync(this.cells, EVENTS, seen, SLEEP_MS);
    await value;
  }

  /** Changes with everything that any lane announces. */
  get numEvents(): number {
    return Atomics.load(this.cells, EVENTS);
  }

  #change(from: number, to: number): void {
    Atomics.compareExchange(this.cells, PERMISSION, from, to);
    this.#announce();
  }

  #announce(): void {
    Atomics.add(this.cells, EVENTS, 1);
    Atomics.notify(this.cells, EVENTS);
  }

  #computing(lane: number): number {
    return LANES + this.#numLanes + lane;
  }
}
