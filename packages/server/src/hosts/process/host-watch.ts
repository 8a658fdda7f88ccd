/** A host's sign of life, sent once a second from a thread of its own: it arrives even while the main thread computes. */
export interface LifeSign {
  /** how often the main thread's event loop has gone round a timer */
  readonly numTurns: number;
  /** how many slices on the cores have begun */
  readonly numSlices: number;
  /** the last of them has not ended */
  readonly isInSlice: boolean;
  /** processor time of the whole process so far, all threads */
  readonly cpuMs: number;
}

/** Milliseconds in which the watcher itself ran: time in which it was stopped, asleep or starved counts for nobody. */
export interface WatchLimits {
  /** until the first sign, or until it is ready: starting a process and reading its modules, on a machine that does a dozen other things */
  readonly firstSignMs: number;
  /** between two signs. The thread that sends them sleeps, so it gets its turn also on a busy machine: longer means that the process is stopped. */
  readonly silenceMs: number;
  /** without an event, without a new slice and without processor time: it waits for something that does not come */
  readonly idleMs: number;
  /** of one slice, or without an event of the main thread, however much it computes; not before the host is ready, since converting a large model may take long */
  readonly turnMs: number;
}

export const DEFAULT_WATCH_LIMITS: WatchLimits = {
  firstSignMs: 300_000,
  silenceMs: 15_000,
  idleMs: 120_000,
  turnMs: 1_200_000,
};

/** Processor time that shows that something is computed; each sign costs a little itself. */
const COMPUTING_CPU_MS = 10;
const SIGN_CPU_MS = 3;
/** Silence that is worth telling before anything is done about it: some signs are missing. */
const NOTICEABLE_SILENCE_MS = 5_000;

/** Decides from a host's signs of life whether it still works. Knows no clock: the watcher says how much time passed. */
export class HostWatch {
  readonly #limits: WatchLimits;
  #last: LifeSign | null = null;
  #silentMs = 0;
  #wasReady = false;
  /** since the main thread's last event */
  #blockedMs = 0;
  /** since the slice in hand began */
  #sliceMs = 0;
  /** since it last went on or computed */
  #idleMs = 0;
  /** processor time that is spoken for: all up to then, and what the signs took since */
  #countedCpuMs = 0;

  constructor(limits: WatchLimits) {
    this.#limits = limits;
  }

  heard(sign: LifeSign): void {
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
   * @param ms how long the watcher ran since the last call
   * @returns why the host must be ended; null while it works
   */
  passed(ms: number, isReady: boolean): string | null {
    const { firstSignMs, silenceMs, idleMs, turnMs } = this.#limits;
    // To say that it is ready is a sign too.
    if (isReady && !this.#wasReady) this.#silentMs = 0;
    this.#wasReady = isReady;
    this.#silentMs += ms;
    // A silent host says nothing of its turns either.
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

  /** A warning for the operator before anything is done about it; null when all is well. */
  get trouble(): string | null {
    return this.#silentMs > NOTICEABLE_SILENCE_MS ? `no sign of life for ${seconds(this.#silentMs)}` : null;
  }
}

function seconds(ms: number): string {
  return `${Math.floor(ms / 1000)} s`;
}
