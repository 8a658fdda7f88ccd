/** A larger difference is a clock change and not a slow response, ms. */
const SET_MS = 60_000;
/** A response states the second in which it was written: half a second is the best estimate. */
const HALF_SECOND_MS = 500;

/** Clock of the service's machine, from the `Date` of its responses (RFC 9110, 6.6.1), to about a second. */
export class ServiceClock {
  /** Lead of the service's clock; null before its first response. */
  #aheadMs: number | null = null;

  note({ headers }: Response): void {
    const date = Date.parse(headers.get('date') ?? '');
    // Slow responses seem late, so the fastest one is right.
    const aheadMs = date + HALF_SECOND_MS - Date.now();
    if (Number.isNaN(aheadMs)) return;
    const before = this.#aheadMs;
    if (before === null || aheadMs > before || before - aheadMs > SET_MS) this.#aheadMs = aheadMs;
  }

  /** Milliseconds since 1970; on the local clock before the first response. */
  now(): number {
    const aheadMs = this.#aheadMs ?? 0;
    // Clocks that agree to the second of a response count as equal.
    return Date.now() + (Math.abs(aheadMs) <= 2 * HALF_SECOND_MS ? 0 : aheadMs);
  }
}
