/** Figures are sums over whole tables, so scrapes share a reading for this time. */
const KEPT_MS = 60_000;

/** Database figures, read at most once a minute. */
export class MinuteFigures<Figures> {
  readonly #read: () => Promise<Figures>;
  readonly #now: () => number;
  #last: { readonly at: number; readonly figures: Promise<Figures> } | null = null;

  /** @param now ms, monotonic; default `performance.now` */
  constructor(read: () => Promise<Figures>, now: () => number = () => performance.now()) {
    this.#read = read;
    this.#now = now;
  }

  /** Rejects if the reading fails; the next call then reads again. */
  read(): Promise<Figures> {
    const now = this.#now();
    if (this.#last !== null && now - this.#last.at < KEPT_MS) return this.#last.figures;
    const figures = this.#read();
    this.#last = { at: now, figures };
    figures.catch(() => (this.#last = null));
    return figures;
  }
}
