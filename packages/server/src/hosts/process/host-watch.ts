/**
 * A host's sign of life, sent once a second from a separate thread: it arrives even while the main thread
 * computes.
 */
export interface LifeSign {
  readonly numTurns: number;
  /** slices on the cores so far */
  readonly numSlices: number;
  /** the last slice has not ended */
  readonly isInSlice: boolean;
  /** processor time of the whole process so far, all threads */
  readonly cpuMs: number;
}

/**
 * Milliseconds during which the watcher itself ran: time when it was stopped, asleep or starved does not
 * count.
 */
export interface WatchLimits {
  /** until the first sign, or until it is ready: process start and module loading, on a busy machine */
  readonly firstSignMs: number;
  /**
   * between two signs. Their thread sleeps, so it gets its turn even on a busy machine: a longer gap means
   * that the process is stopped.
   */
  readonly silenceMs: number;
  /** without an event, a new slice or processor time: the host waits for something that does not come */
  readonly idleMs: number;
  /**
   * of one slice, or without an event of the main thread, even while it computes; only once the host is
   * ready, because converting a large model may take long
   */
  readonly turnMs: number;
}

export const DEFAULT_WATCH_LIMITS: WatchLimits = {
  firstSignMs: 300_000,
  silenceMs: 15_000,
  idleMs: 120_000,
  turnMs: 1_200_000,
};

/** Processor time that indicates computing; each sign costs a little itself. */
const COMPUTING_CPU_MS = 10;
const SIGN_CPU_MS = 3;
/** Silence that is reported as a warning: some signs are missing. */
const NOTICEABLE_SILENCE_MS = 5_000;

/** Decides from a host's signs of life if it still works. Has no clock: the watcher passes the elapsed time. */
export class HostWatch {
  readonly #limits: WatchLimits;
  #last: LifeSign | null = null;
  #silentMs = 0;
  #wasReady = false;
  #blockedMs = 0;
  #sliceMs = 0;
  /** since its last progress or computing */
  #idleMs = 0;
  /** processor time already accounted for, including that of the signs */
  #countedCpuMs = 0;

  constructor(limits: WatchLimits) {
    this.#limits = limits;
  }

  record(sign: LifeSign): void {
    const last = this.#last;
    this.#last = sign;
    this.#silentMs = 0;
    const hasTurned = last === null || sign.numTurns !== last.numTurns;
    const isSameSlice = last !== null && sign.isInSlice && last.isInSlice && sign.numSlices === last.numSlices;
    if (hasTurned) this.#blockedMs = 0;
    if (!isSameSlice) this.#sliceMs = 0;
    this.#countedCpuMs = Math.min(this.#countedCpuMs + SIGN_CPU_MS, sign.cpuMs);
    const computes = sign.cpuMs - this.#countedCpuMs >= COMPUTING_CPU_MS;
    if (!computes && (!hasTurned || isSameSlice)) return;
    this.#idleMs = 0;
    this.#countedCpuMs = sign.cpuMs;
  }

  /**
   * @param ms that the watcher ran since the last call
   * @returns the reason to end the host; null while it works
   */
  passed(ms: number, isReady: boolean): string | null {
    const { firstSignMs, silenceMs, idleMs, turnMs } = this.#limits;
    // Becoming ready counts as a sign.
    if (isReady && !this.#wasReady) this.#silentMs = 0;
    this.#wasReady = isReady;
    this.#silentMs += ms;
    // Without signs nothing is known about its turns.
    if (this.#silentMs > (this.#last === null && !isReady ? firstSignMs : silenceMs))
      return `it gave no sign of life for ${seconds(this.#silentMs)}`;
    if (this.#last === null) return null;
    this.#blockedMs += ms;
    this.#sliceMs += ms;
    this.#idleMs += ms;
    if (this.#idleMs > idleMs) return `it made no progress and used no CPU for ${seconds(this.#idleMs)}`;
    if (!isReady) return null;
    if (this.#last.isInSlice && this.#sliceMs > turnMs)
      return `one turn on the cores took more than ${seconds(this.#sliceMs)}`;
    if (this.#blockedMs > turnMs) return `it read no message for ${seconds(this.#blockedMs)}`;
    return null;
  }

  /** Early warning for the operator; null if all is well. */
  get problem(): string | null {
    return this.#silentMs > NOTICEABLE_SILENCE_MS ? `no sign of life for ${seconds(this.#silentMs)}` : null;
  }
}

function seconds(ms: number): string {
  return `${Math.floor(ms / 1000)} s`;
}
