/** Integrates work at a changing rate: tokens of a batch, seconds of a job. */
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

  /** Sets the exact value it has reached, without rounding errors. */
  reach(now: number, value: number): void {
    this.#value = Math.max(value, this.valueAt(now));
    this.#since = now;
  }

  /** Time at which it reaches a value at the current rate; Infinity at rate 0. */
  timeOf(value: number, now: number): number {
    const missing = value - this.valueAt(now);
    if (missing <= 0) return now;
    return this.#rate > 0 ? now + missing / this.#rate : Infinity;
  }
}
