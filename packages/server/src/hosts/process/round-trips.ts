/**
 * Measures if the other side still answers. Concurrent callers share one question, so asking often is cheap.
 */
export class RoundTrips {
  readonly #deadlineMs: number;
  #inFlight: { answered: PromiseWithResolvers<void>; startedAt: number } | null = null;

  constructor(deadlineMs: number) {
    this.#deadlineMs = deadlineMs;
  }

  /**
   * @param ask returns false if there is no one to ask.
   * @returns milliseconds, or null without an answer within the deadline
   */
  async measure(ask: () => boolean): Promise<number | null> {
    if (this.#inFlight === null) {
      if (!ask()) return null;
      this.#inFlight = { answered: Promise.withResolvers(), startedAt: performance.now() };
    }
    const { answered, startedAt } = this.#inFlight;
    const remainingMs = Math.max(0, startedAt + this.#deadlineMs - performance.now());
    const deadline = Promise.withResolvers<'late'>();
    const timer = setTimeout(() => deadline.resolve('late'), remainingMs);
    const outcome = await Promise.race([answered.promise, deadline.promise]);
    clearTimeout(timer);
    return outcome === 'late' ? null : performance.now() - startedAt;
  }

  settle(): void {
    this.#inFlight?.answered.resolve();
    this.#inFlight = null;
  }
}
