import { settledWithin } from '@trainyard/store';

/** An answer counts for so long: probes of several watchers share one. */
const FRESH_MS = 2_000;
/** An answer that takes longer does not come, for a probe. */
const TIMEOUT_MS = 2_000;

export interface AnswerWatchOptions {
  /** Name in messages: `database` or `bucket`. */
  readonly name: string;
  /** Asks once. Rejects when there is no answer. It may take long: it is not asked again meanwhile. */
  readonly ask: () => Promise<unknown>;
  /** Default 2 s. */
  readonly freshMs?: number;
  /** Default 2 s. */
  readonly timeoutMs?: number;
}

/** One part that this process reaches over the network: whether it answers now. It is asked when somebody wants to know, at most every 2 s. */
export class AnswerWatch {
  readonly #options: Required<AnswerWatchOptions>;
  #asking: Promise<void> | null = null;
  #askedAt = -Infinity;
  /** On the clock of `performance.now()`: the first question without an answer; null while it answers. */
  #silentSince: number | null = null;

  constructor(options: AnswerWatchOptions) {
    this.#options = { freshMs: FRESH_MS, timeoutMs: TIMEOUT_MS, ...options };
  }

  /** Why it is away, in words that name no address; null while it answers. Settles within the time limit. */
  async trouble(): Promise<string | null> {
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
        // It counts from its end: an answer that was late is not asked for again at once.
        this.#askedAt = performance.now();
        this.#asking = null;
      });
  }
}
