/** Asks whether the other side still answers. Whoever asks while a question is on its way waits for its answer, so asking often costs nothing. */
export class RoundTrips {
  readonly #deadlineMs: number;
  #inFlight: { answered: PromiseWithResolvers<void>; startedAt: number } | null = null;

  constructor(deadlineMs: number) {
    this.#deadlineMs = deadlineMs;
  }

  /** @param ask false = there is nobody to ask. @returns milliseconds, or null when no answer came within the deadline */
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

  /** The answer came, or the one who was asked is gone: the next question is a new one. */
  settle(): void {
    this.#inFlight?.answered.resolve();
    this.#inFlight = null;
  }
}
