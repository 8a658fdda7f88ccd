/**
 * How many requests may be in flight, over all base models. A request whose client has left counts no longer, though its host is still told of it: as many as the
 * limit may be on their way out. As many more may be paused, because their clients do not read: they compute nothing and give their places to others.
 */
export class RequestRoom {
  /** Requests that somebody waits for. */
  numInFlight = 0;
  /** Those of them whose clients do not read. */
  numPaused = 0;
  /** Requests that were left, of which their host has not said that they ended. */
  numLeaving = 0;
  readonly #maxRequests: number;

  constructor(maxRequests: number) {
    this.#maxRequests = maxRequests;
  }

  /** Why one more is refused, in words for clients; null while there is room. Requests above the limit wait for nothing: they are told at once. */
  get refusal(): string | null {
    const numCounted = this.numInFlight - Math.min(this.numPaused, this.#maxRequests);
    if (numCounted >= this.#maxRequests)
      return `at most ${this.#maxRequests} requests may be in flight, got ${this.numInFlight}: retry later`;
    return this.numLeaving < this.#maxRequests
      ? null
      : `${this.numLeaving} cancelled requests are still ending: retry later`;
  }
}
