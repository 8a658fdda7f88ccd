/** A finished sequence whose cells are kept: they hold `tokens`, and the slot is the runner's sequence number. */
export interface CacheEntry {
  readonly namespace: string;
  readonly tokens: readonly number[];
  readonly slot: number;
}

/** Finished sequences still in memory, by namespace. The caller that removes an entry closes its slot. */
export class PrefixCache {
  readonly #byNamespace = new Map<string, Set<CacheEntry>>();
  /** Insertion order is the order of use. */
  readonly #byUse = new Set<CacheEntry>();

  get size(): number {
    return this.#byUse.size;
  }
  /** Least recently used first. */
  entries(): Iterable<CacheEntry> {
    return this.#byUse;
  }
  inNamespace(namespace: string): Iterable<CacheEntry> {
    return this.#byNamespace.get(namespace) ?? [];
  }

  /** Entry with the longest common prefix, at most `limit` tokens; null if none. */
  longestMatch(
    namespace: string,
    tokens: readonly number[],
    limit: number,
  ): { entry: CacheEntry; length: number } | null {
    let best: { entry: CacheEntry; length: number } | null = null;
    for (const entry of this.inNamespace(namespace)) {
      const length = commonPrefixLength(tokens, entry.tokens, limit, best?.length ?? 0);
      if (length > (best?.length ?? 0)) best = { entry, length };
    }
    return best;
  }

  add(entry: CacheEntry): void {
    this.#byUse.add(entry);
    const group = this.#byNamespace.get(entry.namespace);
    if (group) group.add(entry);
    else this.#byNamespace.set(entry.namespace, new Set([entry]));
  }

  touch(entry: CacheEntry): void {
    this.#byUse.delete(entry);
    this.#byUse.add(entry);
  }

  remove(entry: CacheEntry): void {
    this.#byUse.delete(entry);
    const group = this.#byNamespace.get(entry.namespace);
    group?.delete(entry);
    if (group?.size === 0) this.#byNamespace.delete(entry.namespace);
  }
}

/** @param toBeat lists that cannot share more than this are dropped after one comparison (result 0) */
export function commonPrefixLength(a: readonly number[], b: readonly number[], limit: number, toBeat = 0): number {
  const end = Math.min(a.length, b.length, limit);
  if (a === b) return end;
  if (toBeat > 0 && (end <= toBeat || a[toBeat] !== b[toBeat])) return 0;
  let length = 0;
  while (length < end && a[length] === b[length]) length++;
  return length;
}
