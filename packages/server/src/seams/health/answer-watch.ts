import { settledWithin } from '@trainyard/store';

/** Lifetime of a result, ms: probes of several watchers share one. */
const FRESH_MS = 2_000;
/** Time limit of a probe, ms. */
const TIMEOUT_MS = 2_000;

export interface AnswerWatchOptions {
  readonly name: string;
  /** Probes once. Rejects without an answer. It may take long, and runs once at a time. */
  readonly ask: () => Promise<unknown>;
  /** Default 2 s. */
  readonly freshMs?: number;
  /** Default 2 s. */
  readonly timeoutMs?: number;
}

/** Reachability of one remote part of this process. Probed on demand, at most every 2 s. */
export class AnswerWatch {
  readonly #options: Required<AnswerWatchOptions>;
  #asking: Promise<void> | null = null;
  #askedAt = -Infinity;
  /** On the clock of `performance.now()`: start of the first probe without an answer; null while it answers. */
  #silentSince: number | null = null;

  constructor(options: AnswerWatchOptions) {
    this.#options = { freshMs: FRESH_MS, timeoutMs: TIMEOUT_MS, ...options };
  }

  /** Reason why it is away, without addresses; null while it answers. Settles within the time limit. */
  async problem(): Promise<string | null> {
    const { name, freshMs, timeoutMs } = this.#options;
    if (this.#asking === null && performance.now() - this.#askedAt >= freshMs) this.#ask();
    const askedAt = this.#askedAt;
    if (
      this.#asking !== null &&
      !(await settledWithin(this.#asking, Math.max(0, askedAt + timeoutMs - performance.now())))
    )
      this.#silentSince ??= askedAt;
    if (this.#silentSince === null) return null;
    return `the ${name} has not answered for ${Math.floor((performance.now() - this.#silentSince) / 1000)} s`;
  }

  #ask(): void {
    const askedAt = (this.#askedAt = performance.now());
    this.#asking = this.#options
      .ask()
      .then(
        () => void (this.#silentSince = null),
        () => void (this.#silentSince ??= askedAt),
      )
      .finally(() => {
        // Counted from the end of the probe, so that a late answer is not probed again at once.
        this.#askedAt = performance.now();
        this.#asking = null;
      });
  }
}
