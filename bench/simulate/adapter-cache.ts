/** Adapters of one server; the least recently used one is evicted first. */
export class AdapterCache {
  readonly #capacity: number;
  /** Time when each was or will be loaded, in order of use. */
  readonly #readyAt = new Map<string, number>();
  numHits = 0;
  numMisses = 0;

  /** @param capacity adapters, at least 1 */
  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  /** @returns the time when it can be used: concurrent uses share one load */
  use(adapter: string, now: number, loadSeconds: number): number {
    const known = this.#readyAt.get(adapter);
    if (known === undefined) this.numMisses++;
    else this.numHits++;
    const readyAt = known ?? now + loadSeconds;
    this.#readyAt.delete(adapter);
    this.#readyAt.set(adapter, readyAt);
    if (this.#readyAt.size > this.#capacity) this.#readyAt.delete(this.#readyAt.keys().next().value!);
    return Math.max(now, readyAt);
  }
}
