import { Worker } from 'node:worker_threads';

/** Places in the Int32Array that all threads of a team see. */
export const TEAM_CELL = {
  /** Rises with each piece of work; threads sleep on it. */
  generation: 0,
  /** Units that nobody has begun. */
  remaining: 1,
  done: 2,
  /** Which of the team's works it is. */
  work: 3,
  /** Whether threads look out for the next piece for a while before they sleep. */
  isAlert: 4,
  isClosed: 5,
  /** Whether a unit of the work failed, of any thread but the calling one. */
  hasFailed: 6,
  /** Whether the calling thread sleeps until all are done. */
  isAwaited: 7,
} as const;
/** Most that is told of a failure, bytes. */
const MAX_REASON = 1000;
/** For so long the calling thread looks whether others are done: units that were begun together end together, unless a thread is held up. */
const PATIENCE_MS = 0.3;
/** Time until the first look of a thread that sleeps: nothing relies on its being woken. */
const FIRST_LOOK_MS = 1;
/** Then it doubles up to here: looking each millisecond takes 21 to 26 ms of processor time a second, by which a host that hangs seems to compute. */
const LONGEST_LOOK_MS = 256;

/** Enough for a thread of the team to take part in a work: `kind` says what to make of `data`, which threads can be sent. */
export interface TeamWork {
  readonly kind: string;
  readonly data: unknown;
}

export interface TeamThreadData {
  readonly cells: Int32Array;
  /** The reason of the work's first failure, its length in front, as the calling thread hears no message meanwhile. */
  readonly reason: Uint8Array;
  readonly works: readonly TeamWork[];
  readonly thread: number;
}

/**
 * Threads that share works of many small units: whoever is free takes the next one, the calling thread too. A thread that the machine holds up keeps others waiting for
 * its one unit, not for its share.
 */
export class ThreadTeam {
  readonly numThreads: number;
  readonly #cells = new Int32Array(new SharedArrayBuffer(4 * Object.keys(TEAM_CELL).length));
  readonly #reason = new Uint8Array(new SharedArrayBuffer(2 + MAX_REASON));
  readonly #works: TeamWork[] = [];
  #hasHelpers = false;

  /** @param numThreads the calling one included; the others start with the first work that is shared */
  constructor(numThreads: number) {
    this.numThreads = numThreads;
  }

  /** @returns the number of the work, for {@link run}. All are known before the first is shared. */
  add(work: TeamWork): number {
    return this.#works.push(work) - 1;
  }

  /**
   * Computes every unit once, and returns when all are done.
   *
   * @param isShared false: it is over before another thread is awake
   * @param compute of this thread; the others have theirs
   * @throws {Error} when a unit failed: those that were begun are over then, and no other begins
   */
  run(work: number, numUnits: number, isShared: boolean, compute: (unit: number) => void): void {
    const cells = this.#cells;
    Atomics.store(cells, TEAM_CELL.work, work);
    // Where the calling thread failed as well, nobody has read it.
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
      awaitUnits(cells, numUnits);
    }
    if (Atomics.load(cells, TEAM_CELL.hasFailed) === 1) throw new Error(`a thread failed: ${readReason(this.#reason)}`);
  }

  /** Between pieces of work that follow each other within microseconds, waking up would take longer than the work. */
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
      // Asleep between batches, it keeps no process alive.
      worker.unref();
    }
  }
}

/** Computes until no unit is left to begin. @throws what `compute` throws: no unit is left then, and all are done but those of other threads */
export function takeUnits(cells: Int32Array, compute: (unit: number) => void): void {
  for (;;) {
    const remaining = Atomics.load(cells, TEAM_CELL.remaining);
    if (remaining === 0) return;
    // While one unit is not done the cells stay as they are: who has taken one may read them.
    if (Atomics.compareExchange(cells, TEAM_CELL.remaining, remaining, remaining - 1) !== remaining) continue;
    try {
      compute(remaining - 1);
    } catch (error) {
      tellDone(cells, Atomics.exchange(cells, TEAM_CELL.remaining, 0) + 1);
      throw error;
    }
    tellDone(cells, 1);
  }
}

function tellDone(cells: Int32Array, numUnits: number): void {
  Atomics.add(cells, TEAM_CELL.done, numUnits);
  if (Atomics.load(cells, TEAM_CELL.isAwaited) === 1) Atomics.notify(cells, TEAM_CELL.done);
}

/**
 * Returns when all units are done: the others are in the middle of their last one. A thread that is held up may need the core of the one that waits for it, which
 * therefore sleeps after a while.
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

/** As {@link takeUnits}, for a thread that helps: the calling one is told of a failure, before it counts as done. */
export function helpWith(
  { cells, reason }: Pick<TeamThreadData, 'cells' | 'reason'>,
  compute: (unit: number) => void,
): void {
  const told = (unit: number) => {
    try {
      compute(unit);
    } catch (error) {
      // Two that write at once would leave neither's words.
      if (Atomics.compareExchange(cells, TEAM_CELL.hasFailed, 0, 1) === 0) {
        const { written } = new TextEncoder().encodeInto(String(error), reason.subarray(2));
        reason.set([written >> 8, written & 255]);
      }
      throw error;
    }
  };
  try {
    takeUnits(cells, told);
  } catch {
    // Told.
  }
}

function readReason(reason: Uint8Array): string {
  return Buffer.from(reason.slice(2, 2 + (reason[0]! << 8) + reason[1]!)).toString();
}
