/** Clock of all writes, and its trusted readings. */
export interface StoreClock {
  /** Milliseconds since the epoch on the clock of all writes: the database's, if it has one. */
  now(): number;
  /**
   * Last clock reading used to remove old data; before the first, the time of the newest row; null without
   * rows.
   */
  lastTrusted(): Promise<number | null>;
  /**
   * Time for removals by age: the clock, but at most an hour after its last trusted reading known to this
   * process.
   */
  removalTime(): number;
  trust(at: number): Promise<void>;
}
