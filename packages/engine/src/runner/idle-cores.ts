import { cpus } from 'node:os';

/** Shorter times say little: the kernel counts in hundredths of a second. */
const WINDOW_MS = 400;

/** Cores of the machine that nobody used, from window to window. */
export class IdleCores {
  readonly #readIdleMs: () => number;
  #sinceMs: number | null = null;
  #idleMs = 0;

  /** @param readIdleMs idle time of all cores together since some point, ms */
  constructor(readIdleMs: () => number = machineIdleMs) {
    this.#readIdleMs = readIdleMs;
  }

  /** @returns the mean over the time since the last window began; null while that is too short */
  observe(nowMs: number): number | null {
    if (this.#sinceMs !== null && nowMs - this.#sinceMs < WINDOW_MS) return null;
    const before = this.#sinceMs;
    const idleMs = this.#readIdleMs();
    const idle = before === null ? null : (idleMs - this.#idleMs) / (nowMs - before);
    this.#sinceMs = nowMs;
    this.#idleMs = idleMs;
    return idle;
  }

  /** The next observation begins a window of its own. */
  forget(): void {
    this.#sinceMs = null;
  }
}

function machineIdleMs(): number {
  return cpus().reduce((sum, { times }) => sum + times.idle, 0);
}
