import type { LaneWait } from './lane-schedule.ts';

const EVENTS = 0;
const PERMISSION = 1;
const LANES = 2;

const PAUSED = 0;
const GRANTED = 1;
const STOPPED = 2;

// Lanes usually finish steps within fractions of a millisecond of each other; waking a sleeping thread takes as
// long.
const SPIN_MS = 0.5;
// Bounds the cost of a lost wake-up; none is known.
const SLEEP_MS = 100;

/** Another lane failed or the pass was cancelled. */
export class LaneStopped extends Error {
  override readonly name = 'LaneStopped';
}

/**
 * Shared memory with the steps done per lane, which lanes compute, and if they may. Messages between threads
 * took a millisecond each (docs/lab/experiments.md).
 */
export class LaneProgress {
  /** [2 + 2 · lanes] events, permission, steps done by lane, 1 by lane while it computes. */
  readonly cells: Int32Array;
  readonly #numLanes: number;

  constructor(cells: Int32Array) {
    this.cells = cells;
    this.#numLanes = (cells.length - LANES) / 2;
  }

  static create(numLanes: number): LaneProgress {
    return new LaneProgress(new Int32Array(new SharedArrayBuffer(4 * (LANES + 2 * numLanes))));
  }

  /** Call while no lane computes. */
  reset(): void {
    for (let lane = 0; lane < this.#numLanes; lane++) Atomics.store(this.cells, LANES + lane, 0);
    Atomics.store(this.cells, PERMISSION, GRANTED);
    this.#announce();
  }

  /** A stopped pass stays stopped. */
  grant(): void {
    this.#change(PAUSED, GRANTED);
  }

  /** Lanes finish their current piece and start no other; see `isAnotherComputing`. */
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

  /** The lanes that a step of `lane` waits for are far enough. */
  isReady(lane: number, waits: readonly LaneWait[]): boolean {
    return waits.every(({ lanes, step }) => {
      const first = lanes === 'lower' ? 0 : lane + 1;
      const end = lanes === 'lower' ? lane : this.#numLanes;
      for (let other = first; other < end; other++) if (Atomics.load(this.cells, LANES + other) <= step) return false;
      return true;
    });
  }

  /** Returns false while paused. After true, `end` must follow. */
  tryBegin(lane: number): boolean {
    // Claim first, then check; `pause` does the reverse, so one of the two sees the other.
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

  isAnotherComputing(): boolean {
    for (let lane = 1; lane < this.#numLanes; lane++)
      if (Atomics.load(this.cells, this.#computing(lane)) === 1) return true;
    return false;
  }

  waitForEnd(lane: number, maxMs: number): void {
    Atomics.wait(this.cells, this.#computing(lane), 1, maxMs);
  }

  /** Blocks the thread; the condition may depend only on this progress. */
  waitUntil(condition: () => boolean): void {
    for (;;) {
      const spinUntil = performance.now() + SPIN_MS;
      while (performance.now() < spinUntil) if (condition()) return;
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

  /** Changes with every announcement. */
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
