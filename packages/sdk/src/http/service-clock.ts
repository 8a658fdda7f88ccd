/** A difference beyond this is a clock that was set, and no slow answer, ms. */
const SET_MS = 60_000;
/** An answer says the second that it was written in: half of one is the best guess. */
const HALF_SECOND_MS = 500;

/** The time on the machine of the service, by the `Date` of its answers (RFC 9110, 6.6.1), to about a second. */
export class ServiceClock {
  /** How far the service is ahead; null before it was heard of. */
  #aheadMs: number | null = null;

  note({ headers }: Response): void {
    const date = Date.parse(headers.get('date') ?? '');
    // What was on its way for long seems to be behind: the answer that was quickest is right.
    const aheadMs = date + HALF_SECOND_MS - Date.now();
    if (Number.isNaN(aheadMs)) return;
    const before = this.#aheadMs;
    if (before === null || aheadMs > before || before - aheadMs > SET_MS) this.#aheadMs = aheadMs;
  }

  /** Milliseconds since 1970; by the own clock before the first answer. */
  now(): number {
    const aheadMs = this.#aheadMs ?? 0;
    // Clocks that agree to the second that an answer tells are taken to agree.
    return Date.now() + (Math.abs(aheadMs) <= 2 * HALF_SECOND_MS ? 0 : aheadMs);
  }
}
