/** Shorter decodes are dominated by starting the threads. */
const MIN_WALL_MS = 2;
/** Decodes per verdict. */
const WINDOW = 4;
/** Mean number of descheduled threads over the window above which one fewer is faster. */
const MAX_LOST_THREADS = 0.3;
const FIRST_RETRY_MS = 2_000;
const MAX_RETRY_MS = 60_000;
/** Unused cores in a window above which one more thread is tried at once. */
const MIN_IDLE_CORES = 0.7;

/**
 * Chooses the number of decoding threads by the processor time that they get.
 *
 * Threads spin at a barrier after every operation, so a descheduled one delays all: with another process on one
 * of two cores, steps took 390–910 ms on two threads and 110–280 ms on one. If CPU time falls below wall time ×
 * threads, one thread is given up. It is tried again when a core is idle, or after a while (doubled after each
 * failed try). Idle cores may be unusable under a container's quota, so after a failed try they are ignored for
 * a while.
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
  #retryIdleAtMs = 0;
  #trial: 'time' | 'idle' | null = null;

  constructor(maxThreads: number) {
    this.#maxThreads = maxThreads;
    this.#numThreads = maxThreads;
  }

  get numThreads(): number {
    return this.#numThreads;
  }

  /** True if fewer threads decode than allowed. */
  get hasGivenUp(): boolean {
    return this.#numThreads < this.#maxThreads;
  }

  /**
   * @param decode `cpuMs` summed over all threads; `idleCores` over a window that has just ended, else null
   * @returns the new number of threads, or null if unchanged
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
    if (lostThreads > MAX_LOST_THREADS) return this.#dropOne(nowMs);
    if (this.#trial !== null) {
      this.#trial = null;
      this.#retryMs = FIRST_RETRY_MS;
      this.#idleRetryMs = FIRST_RETRY_MS;
      this.#retryAtMs = nowMs + this.#retryMs;
    }
    return null;
  }

  #reasonToTry({ nowMs, idleCores }: { nowMs: number; idleCores: number | null }): 'time' | 'idle' | null {
    if (idleCores !== null && idleCores >= MIN_IDLE_CORES && nowMs >= this.#retryIdleAtMs) return 'idle';
    return nowMs >= this.#retryAtMs ? 'time' : null;
  }

  #try(nowMs: number): number {
    this.#forget();
    this.#retryAtMs = nowMs + this.#retryMs;
    return ++this.#numThreads;
  }

  #dropOne(nowMs: number): number {
    if (this.#trial === 'time') this.#retryMs = Math.min(2 * this.#retryMs, MAX_RETRY_MS);
    if (this.#trial === 'idle') {
      this.#retryIdleAtMs = nowMs + this.#idleRetryMs;
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
