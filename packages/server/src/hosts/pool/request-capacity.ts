/**
 * Limits the requests in flight over all base models. Requests whose client has left do not count; at most as
 * many as the limit may be ending. As many more may be paused because their clients do not read.
 */
export class RequestCapacity {
  /** Requests with a waiting client. */
  numInFlight = 0;
  /** Those whose clients do not read. */
  numPaused = 0;
  numLeaving = 0;
  readonly #maxRequests: number;

  constructor(maxRequests: number) {
    this.#maxRequests = maxRequests;
  }

  /**
   * Reason to refuse another request, for clients; null while there is room. Requests above the limit do not
   * wait: they are refused at once.
   */
  get refusal(): string | null {
    const numCounted = this.numInFlight - Math.min(this.numPaused, this.#maxRequests);
    if (numCounted >= this.#maxRequests)
      return `at most ${this.#maxRequests} requests may be in flight, got ${this.numInFlight}: retry later`;
    return this.numLeaving < this.#maxRequests
      ? null
      : `${this.numLeaving} cancelled requests are still ending: retry later`;
  }
}
