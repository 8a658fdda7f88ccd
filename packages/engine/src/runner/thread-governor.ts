/** Shorter decodes say little: starting the threads is a good part of them. */
const MIN_WALL_MS = 2;
/** Decodes that a verdict rests on. */
const WINDOW = 4;
/** Threads that the scheduler took away, on average over the window, above which one fewer is faster. */
const MAX_LOST_THREADS = 0.3;
const FIRST_RETRY_MS = 2_000;
const MAX_RETRY_MS = 60_000;

/**
 * Chooses how many threads decode, by how much of their time they really got.
 *
 * The threads spin at a barrier after every operation, so one that is descheduled makes all others wait: with another process on one of two
 * cores, steps of 390–910 ms on two threads took 110–280 ms on one. Contention shows as CPU time below wall time × threads; then one thread
 * is given up, and tried again after a while (twice as long after each failed try).
 */
export class ThreadGovernor {
  readonly #maxThreads: number;
  #numThreads: number;
  #wallMs = 0;
  #cpuMs = 0;
  #numObserved = 0;
  #retryMs = FIRST_RETRY_MS;
  #retryAtMs = Infinity;
  #isTrial = false;

  constructor(maxThreads: number) {
    this.#maxThreads = maxThreads;
    this.#numThreads = maxThreads;
  }

  get numThreads(): number {
    return this.#numThreads;
  }

  /**
   * Tells of one decode.
   * @param decode `cpuMs` summed over all threads
   * @returns the new number of threads, or null when it stays
   */
  observe(decode: { nowMs: number; wallMs: number; cpuMs: number }): number | null {
    const { nowMs, wallMs, cpuMs } = decode;
    if (this.#numThreads < this.#maxThreads && nowMs >= this.#retryAtMs && !this.#isTrial) return this.#try(nowMs);
    if (wallMs < MIN_WALL_MS || this.#numThreads === 1) return null;
    this.#wallMs += wallMs;
    this.#cpuMs += cpuMs;
    this.#numObserved++;
    if (this.#numObserved < WINDOW) return null;
    const lostThreads = this.#numThreads - this.#cpuMs / this.#wallMs;
    this.#forget();
    if (lostThreads > MAX_LOST_THREADS) return this.#giveUpOne(nowMs);
    if (this.#isTrial) {
      this.#isTrial = false;
      this.#retryMs = FIRST_RETRY_MS;
      this.#retryAtMs = nowMs + this.#retryMs;
    }
    return null;
  }

  #try(nowMs: number): number {
    this.#forget();
    this.#isTrial = true;
    this.#retryAtMs = nowMs + this.#retryMs;
    return ++this.#numThreads;
  }

  #giveUpOne(nowMs: number): number {
    if (this.#isTrial) this.#retryMs = Math.min(2 * this.#retryMs, MAX_RETRY_MS);
    this.#isTrial = false;
    this.#retryAtMs = nowMs + this.#retryMs;
    return --this.#numThreads;
  }

  #forget(): void {
    this.#wallMs = 0;
    this.#cpuMs = 0;
    this.#numObserved = 0;
  }
}
