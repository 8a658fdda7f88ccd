/** Figures are sums over whole tables: scrapes in between get what the last one read. */
const KEPT_MS = 60_000;

/** Figures of the database that are read once a minute at most. */
export class MinuteFigures<Figures> {
  readonly #read: () => Promise<Figures>;
  readonly #now: () => number;
  #last: { readonly at: number; readonly figures: Promise<Figures> } | null = null;

  /** @param now ms, monotonic; default `performance.now` */
  constructor(read: () => Promise<Figures>, now: () => number = () => performance.now()) {
    this.#read = read;
    this.#now = now;
  }

  /** Rejects as the reading did; the next call reads again then. */
  read(): Promise<Figures> {
    const now = this.#now();
    if (this.#last !== null && now - this.#last.at < KEPT_MS) return this.#last.figures;
    const figures = this.#read();
    this.#last = { at: now, figures };
    figures.catch(() => (this.#last = null));
    return figures;
  }
}
