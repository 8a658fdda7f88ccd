/** Counts work that is done at a rate which changes: tokens of a batch, seconds of a job. */
export class RateClock {
  #value = 0;
  #since = 0;
  #rate = 0;

  valueAt(now: number): number {
    return this.#value + (now - this.#since) * this.#rate;
  }

  setRate(now: number, rate: number): void {
    this.#value = this.valueAt(now);
    this.#since = now;
    this.#rate = rate;
  }

  /** Sets it to a value that it has come to but for rounding. */
  reach(now: number, value: number): void {
    this.#value = Math.max(value, this.valueAt(now));
    this.#since = now;
  }

  /** When it will have counted to a value at the rate of now; Infinity while it stands. */
  timeOf(value: number, now: number): number {
    const missing = value - this.valueAt(now);
    if (missing <= 0) return now;
    return this.#rate > 0 ? now + missing / this.#rate : Infinity;
  }
}
