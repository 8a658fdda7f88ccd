import type { CheckpointTotals, Store } from '@trainyard/store';

/** The sums are over all checkpoints: scrapes in between get what the last one read. */
const KEPT_MS = 60_000;

/** Sums over the checkpoints of all models, read from the database once a minute at most. */
export class CheckpointFigures {
  readonly #store: Pick<Store, 'sumCheckpoints'>;
  readonly #now: () => number;
  #last: { readonly at: number; readonly totals: Promise<CheckpointTotals> } | null = null;

  /** @param now ms, monotonic; default `performance.now` */
  constructor(store: Pick<Store, 'sumCheckpoints'>, now: () => number = () => performance.now()) {
    this.#store = store;
    this.#now = now;
  }

  /** @throws {StoreError} */
  read(): Promise<CheckpointTotals> {
    const now = this.#now();
    if (this.#last !== null && now - this.#last.at < KEPT_MS) return this.#last.totals;
    const totals = this.#store.sumCheckpoints();
    this.#last = { at: now, totals };
    // The next scrape asks again.
    totals.catch(() => (this.#last = null));
    return totals;
  }
}
