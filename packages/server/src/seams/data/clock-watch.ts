import type { StoreClock } from '@trainyard/store';

const DAY_MS = 24 * 3_600_000;

export interface ClockWatchOptions {
  readonly clock: Pick<StoreClock, 'now' | 'lastTrusted' | 'trust'>;
  /** The operator has confirmed that the clock is right. */
  readonly isTrusted: boolean;
  /** Default `performance.now`. */
  readonly monotonic?: () => number;
  readonly log: (line: string) => void;
}

interface Reading {
  readonly clock: number;
  readonly monotonic: number;
}

/**
 * Watches the clock that removals by age use. After a jump of more than a day, in either direction, nothing
 * is removed until the clock is back or has been steady for a day: a start before the machine sets its clock
 * must not remove data promised for 30 days.
 */
export class ClockWatch {
  readonly #options: ClockWatchOptions;
  readonly #monotonic: () => number;
  /** Start of the steady time after a jump; null while the clock is trusted. */
  #steadySince: Reading | null = null;
  #last: Reading | null = null;
  #step: string | null = null;

  constructor(options: ClockWatchOptions) {
    this.#options = options;
    this.#monotonic = options.monotonic ?? (() => performance.now());
  }

  /** Reason why removals wait; null: they do not. */
  get notice(): string | null {
    return this.#step;
  }

  /** @returns the time to use for removals, ms since the epoch; null: they wait */
  async read(): Promise<number | null> {
    const { clock, isTrusted } = this.#options;
    const now: Reading = { clock: clock.now(), monotonic: this.#monotonic() };
    const trusted = await clock.lastTrusted();
    const last = this.#last;
    this.#last = now;
    const step = trusted === null ? 0 : now.clock - trusted;
    if (isTrusted || Math.abs(step) <= DAY_MS) return await this.#trust(now);
    const hasJumped = last !== null && Math.abs(driftOf(last, now)) > DAY_MS;
    if (this.#steadySince === null || hasJumped) this.#wait(now, step, trusted ?? 0);
    else if (now.monotonic - this.#steadySince.monotonic >= DAY_MS) return await this.#trust(now);
    return null;
  }

  #wait(now: Reading, step: number, trusted: number): void {
    this.#steadySince = now;
    const days = Math.abs(step / DAY_MS).toFixed(1);
    this.#step =
      `The clock is at ${textOf(now.clock)}, ${days} days ${step > 0 ? 'after' : 'before'} its last trusted reading (${textOf(trusted)}): ` +
      'no old data is removed until the clock has been steady for a day. If the clock is right, start with `--trust-clock`.';
    this.#options.log(this.#step);
  }

  async #trust(now: Reading): Promise<number> {
    if (this.#step !== null) this.#options.log('The clock is trusted again; old data is removed as before.');
    this.#steadySince = null;
    this.#step = null;
    await this.#options.clock.trust(now.clock);
    return now.clock;
  }
}

/** Time that passed on the clock minus that on the monotonic one, ms. */
const driftOf = (before: Reading, after: Reading): number =>
  after.clock - before.clock - (after.monotonic - before.monotonic);

function textOf(at: number): string {
  return Number.isNaN(new Date(at).getTime()) ? String(at) : `${new Date(at).toISOString().slice(0, 16)}Z`;
}
