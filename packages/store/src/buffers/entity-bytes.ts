/** Other processes add rows too, so a count is trusted for a minute. */
const COUNTED_FOR_MS = 60_000;

/** Bytes of each entity as last counted, with what this process has added since. Saves a sum over all rows per write. */
export class EntityBytes {
  readonly #monotonic: () => number;
  readonly #totals = new Map<string, { bytes: number; countedAt: number }>();

  /** @param monotonic default `performance.now` */
  constructor(monotonic: () => number = () => performance.now()) {
    this.#monotonic = monotonic;
  }

  /** Adds bytes. @returns whether the entity has to be counted: its total may be above `maxBytes`, or is not known */
  mayExceed(entityId: string, numAdded: number, maxBytes: number): boolean {
    const total = this.#totals.get(entityId);
    if (total === undefined || this.#monotonic() - total.countedAt > COUNTED_FOR_MS) return true;
    total.bytes += numAdded;
    return total.bytes > maxBytes;
  }

  counted(entityId: string, bytes: number): void {
    this.#totals.set(entityId, { bytes, countedAt: this.#monotonic() });
  }

  forget(): void {
    this.#totals.clear();
  }
}
