import { cpus } from 'node:os';

/** Shorter windows are too coarse: the kernel counts in hundredths of a second. */
const WINDOW_MS = 400;

export class IdleCores {
  readonly #readIdleMs: () => number;
  #sinceMs: number | null = null;
  #idleMs = 0;

  /** @param readIdleMs total idle time of all cores, ms */
  constructor(readIdleMs: () => number = machineIdleMs) {
    this.#readIdleMs = readIdleMs;
  }

  /** @returns the mean since the window started; null while that is too short */
  observe(nowMs: number): number | null {
    if (this.#sinceMs !== null && nowMs - this.#sinceMs < WINDOW_MS) return null;
    const before = this.#sinceMs;
    const idleMs = this.#readIdleMs();
    const idle = before === null ? null : (idleMs - this.#idleMs) / (nowMs - before);
    this.#sinceMs = nowMs;
    this.#idleMs = idleMs;
    return idle;
  }

  forget(): void {
    this.#sinceMs = null;
  }
}

function machineIdleMs(): number {
  return cpus().reduce((sum, { times }) => sum + times.idle, 0);
}
