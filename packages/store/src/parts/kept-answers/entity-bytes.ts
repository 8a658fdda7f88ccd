/** Lifetime of a count: other processes add rows, too. */
const COUNTED_FOR_MS = 60_000;
const SHARE_AFTER_PRUNING = 0.95;

/** Bytes that an entity keeps when its room is full: less than the room, so that most writes need no sum. */
export function prunedTo(maxBytes: number): number {
  return Math.floor(maxBytes * SHARE_AFTER_PRUNING);
}

/**
 * Bytes per entity as last counted, plus those added by this process since. Saves a sum over all rows per
 * write.
 */
export class EntityBytes {
  readonly #monotonic: () => number;
  readonly #totals = new Map<string, { bytes: number; countedAt: number }>();

  /** @param monotonic default `performance.now` */
  constructor(monotonic: () => number = () => performance.now()) {
    this.#monotonic = monotonic;
  }

  /**
   * Adds bytes. @returns true if the entity must be counted: its total may be above `maxBytes`, or is unknown
   */
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
