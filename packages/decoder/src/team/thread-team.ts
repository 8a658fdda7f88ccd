import { Worker } from 'node:worker_threads';

export const TEAM_CELL = {
  /** Rises with each piece of work; threads sleep on it. */
  generation: 0,
  /** Units not yet taken. */
  remaining: 1,
  done: 2,
  work: 3,
  /** True if threads poll for the next piece for a while before they sleep. */
  isAlert: 4,
  isClosed: 5,
  /** True if a unit failed in any thread except the calling one. */
  hasFailed: 6,
  /** True if the calling thread sleeps until all units are done. */
  isAwaited: 7,
} as const;
const MAX_REASON = 1000;
/** Units that start together finish together, unless a thread is held up. */
const PATIENCE_MS = 0.3;
/** Time until a sleeping thread's first check: correctness never relies on a wake-up. */
const FIRST_LOOK_MS = 1;
/** Checking each millisecond takes 21 to 26 ms of processor time per second. */
const LONGEST_LOOK_MS = 256;

/** `kind` selects the code for `data`, which can be sent to threads. */
export interface TeamWork {
  readonly kind: string;
  readonly data: unknown;
}

export interface TeamThreadData {
  readonly cells: Int32Array;
  /** Preceded by its length; the calling thread is blocked and receives no messages. */
  readonly reason: Uint8Array;
  readonly works: readonly TeamWork[];
  readonly thread: number;
}

/**
 * Threads that share works of many small units, the calling thread too. A thread that is held up delays only its
 * one unit.
 */
export class ThreadTeam {
  readonly numThreads: number;
  readonly #cells = new Int32Array(new SharedArrayBuffer(4 * Object.keys(TEAM_CELL).length));
  readonly #reason = new Uint8Array(new SharedArrayBuffer(2 + MAX_REASON));
  readonly #works: TeamWork[] = [];
  #hasHelpers = false;
  #waitMs = 0;

  /** @param numThreads including the calling one; the others start with the first shared work */
  constructor(numThreads: number) {
    this.numThreads = numThreads;
  }

  /** @returns the number of the work, for {@link run}. Add all works before the first is shared. */
  add(work: TeamWork): number {
    return this.#works.push(work) - 1;
  }

  /**
   * Computes every unit once and returns when all are done.
   *
   * @param isShared false if the work ends before another thread is awake
   * @param compute for this thread; the others have theirs
   * @throws {Error} if a unit failed: units that started are over, and no other starts
   */
  run(work: number, numUnits: number, isShared: boolean, compute: (unit: number) => void): void {
    const cells = this.#cells;
    Atomics.store(cells, TEAM_CELL.work, work);
    // If the calling thread failed as well, the flag was not read.
    Atomics.store(cells, TEAM_CELL.hasFailed, 0);
    Atomics.store(cells, TEAM_CELL.done, 0);
    Atomics.store(cells, TEAM_CELL.remaining, numUnits);
    if (isShared && this.numThreads > 1) {
      this.#startHelpers();
      Atomics.add(cells, TEAM_CELL.generation, 1);
      Atomics.notify(cells, TEAM_CELL.generation);
    }
    try {
      takeUnits(cells, compute);
    } finally {
      const startedAtMs = performance.now();
      awaitUnits(cells, numUnits);
      this.#waitMs += performance.now() - startedAtMs;
    }
    if (Atomics.load(cells, TEAM_CELL.hasFailed) === 1) throw new Error(`a thread failed: ${readReason(this.#reason)}`);
  }

  /** Time in which the calling thread waited for units of others so far, ms. */
  get waitMs(): number {
    return this.#waitMs;
  }

  /** True between pieces of work microseconds apart, where waking up would take longer than the work. */
  set isAlert(isAlert: boolean) {
    Atomics.store(this.#cells, TEAM_CELL.isAlert, Number(isAlert));
  }

  get isAlert(): boolean {
    return Atomics.load(this.#cells, TEAM_CELL.isAlert) === 1;
  }

  close(): void {
    Atomics.store(this.#cells, TEAM_CELL.isClosed, 1);
    Atomics.add(this.#cells, TEAM_CELL.generation, 1);
    Atomics.notify(this.#cells, TEAM_CELL.generation);
  }

  #startHelpers(): void {
    if (this.#hasHelpers) return;
    this.#hasHelpers = true;
    for (let thread = 1; thread < this.numThreads; thread++) {
      const workerData: TeamThreadData = { cells: this.#cells, reason: this.#reason, works: this.#works, thread };
      const worker = new Worker(new URL('../batch/team-thread.ts', import.meta.url), {
        workerData,
        execArgv: ['--conditions=@trainyard/source'],
      });
      // An idle team must not keep the process alive.
      worker.unref();
    }
  }
}

/** @throws the error of `compute`, after the remaining units were withdrawn */
export function takeUnits(cells: Int32Array, compute: (unit: number) => void): void {
  for (;;) {
    const remaining = Atomics.load(cells, TEAM_CELL.remaining);
    if (remaining === 0) return;
    // Cells do not change until all units are done, so a thread that took one may read them.
    if (Atomics.compareExchange(cells, TEAM_CELL.remaining, remaining, remaining - 1) !== remaining) continue;
    try {
      compute(remaining - 1);
    } catch (error) {
      signalDone(cells, Atomics.exchange(cells, TEAM_CELL.remaining, 0) + 1);
      throw error;
    }
    signalDone(cells, 1);
  }
}

function signalDone(cells: Int32Array, numUnits: number): void {
  Atomics.add(cells, TEAM_CELL.done, numUnits);
  if (Atomics.load(cells, TEAM_CELL.isAwaited) === 1) Atomics.notify(cells, TEAM_CELL.done);
}

/**
 * Returns when all units are done. Sleeps after a while, because a thread that is held up may need this one's
 * core.
 */
export function awaitUnits(cells: Int32Array, numUnits: number): void {
  const numDone = () => Atomics.load(cells, TEAM_CELL.done);
  if (numDone() === numUnits) return;
  const until = performance.now() + PATIENCE_MS;
  while (performance.now() < until) if (numDone() === numUnits) return;
  Atomics.store(cells, TEAM_CELL.isAwaited, 1);
  let lookMs = FIRST_LOOK_MS;
  for (let done = numDone(); done < numUnits; done = numDone()) {
    Atomics.wait(cells, TEAM_CELL.done, done, lookMs);
    lookMs = Math.min(2 * lookMs, LONGEST_LOOK_MS);
  }
  Atomics.store(cells, TEAM_CELL.isAwaited, 0);
}

/** Version of {@link takeUnits} that reports a failure before the unit counts as done. */
export function helpWith(
  { cells, reason }: Pick<TeamThreadData, 'cells' | 'reason'>,
  compute: (unit: number) => void,
): void {
  const attempt = (unit: number) => {
    try {
      compute(unit);
    } catch (error) {
      // Two simultaneous writers would garble the text.
      if (Atomics.compareExchange(cells, TEAM_CELL.hasFailed, 0, 1) === 0) {
        const { written } = new TextEncoder().encodeInto(String(error), reason.subarray(2));
        reason.set([written >> 8, written & 255]);
      }
      throw error;
    }
  };
  try {
    takeUnits(cells, attempt);
  } catch {
    // Reported above.
  }
}

function readReason(reason: Uint8Array): string {
  return Buffer.from(reason.slice(2, 2 + (reason[0]! << 8) + reason[1]!)).toString();
}
