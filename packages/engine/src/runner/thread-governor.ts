/** Shorter decodes say little: starting the threads is a good part of them. */
const MIN_WALL_MS = 2;
/** Decodes that a verdict rests on. */
const WINDOW = 4;
/** Threads that the scheduler took away, on average over the window, above which one fewer is faster. */
const MAX_LOST_THREADS = 0.3;
const FIRST_RETRY_MS = 2_000;
const MAX_RETRY_MS = 60_000;
/** Cores that nobody used for a window, above which one more thread is tried at once. */
const MIN_IDLE_CORES = 0.7;

/**
 * Chooses how many threads decode, by how much of their time they really got.
 *
 * The threads spin at a barrier after every operation, so one that is descheduled makes all others wait: with another process on one of two
 * cores, steps of 390–910 ms on two threads took 110–280 ms on one. Contention shows as CPU time below wall time × threads; then one thread
 * is given up. It is tried again as soon as a core of the machine is idle, and after a while in any case (twice as long after each failed try). Idle cores may
 * be out of reach, as where a container has a quota: behind a try that they led to and that failed they are not heeded for a while either.
 */
export class ThreadGovernor {
  readonly #maxThreads: number;
  #numThreads: number;
  #wallMs = 0;
  #cpuMs = 0;
  #numObserved = 0;
  #retryMs = FIRST_RETRY_MS;
  #retryAtMs = Infinity;
  #idleRetryMs = FIRST_RETRY_MS;
  #heedIdleAtMs = 0;
  /** Reason of the try that is on; null = none is. */
  #trial: 'time' | 'idle' | null = null;

  constructor(maxThreads: number) {
    this.#maxThreads = maxThreads;
    this.#numThreads = maxThreads;
  }

  get numThreads(): number {
    return this.#numThreads;
  }

  /** Fewer threads decode than may. */
  get hasGivenUp(): boolean {
    return this.#numThreads < this.#maxThreads;
  }

  /**
   * Tells of one decode.
   * @param decode `cpuMs` summed over all threads; `idleCores` of the machine over a window that has just ended, null = none has
   * @returns the new number of threads, or null when it stays
   */
  observe(decode: { nowMs: number; wallMs: number; cpuMs: number; idleCores: number | null }): number | null {
    const { nowMs, wallMs, cpuMs } = decode;
    if (this.hasGivenUp && this.#trial === null) {
      this.#trial = this.#reasonToTry(decode);
      if (this.#trial !== null) return this.#try(nowMs);
    }
    if (wallMs < MIN_WALL_MS || this.#numThreads === 1) return null;
    this.#wallMs += wallMs;
    this.#cpuMs += cpuMs;
    this.#numObserved++;
    if (this.#numObserved < WINDOW) return null;
    const lostThreads = this.#numThreads - this.#cpuMs / this.#wallMs;
    this.#forget();
    if (lostThreads > MAX_LOST_THREADS) return this.#giveUpOne(nowMs);
    if (this.#trial !== null) {
      this.#trial = null;
      this.#retryMs = FIRST_RETRY_MS;
      this.#idleRetryMs = FIRST_RETRY_MS;
      this.#retryAtMs = nowMs + this.#retryMs;
    }
    return null;
  }

  #reasonToTry({ nowMs, idleCores }: { nowMs: number; idleCores: number | null }): 'time' | 'idle' | null {
    if (idleCores !== null && idleCores >= MIN_IDLE_CORES && nowMs >= this.#heedIdleAtMs) return 'idle';
    return nowMs >= this.#retryAtMs ? 'time' : null;
  }

  #try(nowMs: number): number {
    this.#forget();
    this.#retryAtMs = nowMs + this.#retryMs;
    return ++this.#numThreads;
  }

  #giveUpOne(nowMs: number): number {
    if (this.#trial === 'time') this.#retryMs = Math.min(2 * this.#retryMs, MAX_RETRY_MS);
    if (this.#trial === 'idle') {
      this.#heedIdleAtMs = nowMs + this.#idleRetryMs;
      this.#idleRetryMs = Math.min(2 * this.#idleRetryMs, MAX_RETRY_MS);
    }
    this.#trial = null;
    this.#retryAtMs = nowMs + this.#retryMs;
    return --this.#numThreads;
  }

  #forget(): void {
    this.#wallMs = 0;
    this.#cpuMs = 0;
    this.#numObserved = 0;
  }
}
