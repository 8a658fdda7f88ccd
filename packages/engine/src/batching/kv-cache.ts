import assert from 'node:assert/strict';
import { type CellAccount, KvLedger } from './kv-ledger.ts';
import type { ModelRunner } from '../runner/model-runner.ts';
import { commonPrefixLength, PrefixCache } from './prefix-cache.ts';
import type { CacheEntry } from './prefix-cache.ts';
import type { Sequence } from './sequence.ts';

export interface FoundPrefix {
  /** Slot to share from; null if nothing matches. */
  slot: number | null;
  /** Matched cache entry; null if the slot is a running sequence's. */
  entry: CacheEntry | null;
  length: number;
}

/**
 * Sole owner of the runner's cells: of running sequences, and of finished ones until their cells or slots are
 * needed.
 */
export class KvCache {
  readonly #runner: ModelRunner;
  readonly #ledger: KvLedger;
  readonly #prefixes = new PrefixCache();
  readonly #maxCachedTokens: number;

  constructor(runner: ModelRunner, limits: { maxCachedTokens: number }) {
    this.#runner = runner;
    this.#ledger = new KvLedger(runner.capacityTokens, runner.maxSequences);
    this.#maxCachedTokens = limits.maxCachedTokens;
  }

  get capacityTokens(): number {
    return this.#ledger.capacity;
  }
  get usedTokens(): number {
    return this.#ledger.usedCells;
  }
  get cachedTokens(): number {
    return this.#ledger.cachedCells;
  }
  /** Free cells, and the cached ones, which can be evicted. */
  get obtainableTokens(): number {
    return this.#ledger.capacity - this.#ledger.liveCells;
  }
  get hasEntries(): boolean {
    return this.#prefixes.size > 0;
  }

  /** Searches running sequences and cache entries of the sequence's namespace. */
  findPrefix(sequence: Sequence, running: readonly Sequence[]): FoundPrefix {
    const { tokens, owner, maxSharedTokens } = sequence;
    const found: FoundPrefix = { slot: null, entry: null, length: 0 };
    for (const other of running) {
      if (other.owner.namespace !== owner.namespace) continue;
      const limit = Math.min(maxSharedTokens, other.numComputed);
      const length = commonPrefixLength(tokens, other.tokens, limit, found.length);
      if (length > found.length) Object.assign(found, { slot: other.slot, length });
    }
    const cached = this.#prefixes.longestMatch(owner.namespace, tokens, maxSharedTokens);
    if (cached !== null && cached.length > found.length)
      Object.assign(found, { slot: cached.entry.slot, entry: cached.entry, length: cached.length });
    const length = found.slot === null ? 0 : this.shareable(found.slot, found.length);
    return length === 0 ? { slot: null, entry: null, length } : { ...found, length };
  }

  /** First tokens of a slot that the runner can share, at most `length`. */
  shareable(slot: number, length: number): number {
    const rounded = this.rounded(length);
    return this.#runner.shareableLength?.(slot, rounded) ?? rounded;
  }

  /** Length rounded down to the runner's granularity. */
  rounded(length: number): number {
    return length - (length % this.#runner.shareGranularity);
  }

  /** Cells that the sequence takes if opened with this prefix and fully computed. */
  cellsNeeded(sequence: Sequence, prefix: FoundPrefix): number {
    const revived = prefix.slot === null ? 0 : this.#ledger.countCachedOnly(prefix.slot, prefix.length);
    return sequence.tokens.length - prefix.length + revived;
  }

  /** Evicts an entry if no slot is free. @param account charged for the cells */
  open(sequence: Sequence, prefix: FoundPrefix, account: CellAccount): void {
    let { slot: source, length } = prefix;
    if (prefix.entry !== null) this.#prefixes.touch(prefix.entry);
    if (this.#ledger.freeSlots === 0) {
      const victim = this.#entryToEvict();
      assert(victim, 'more running sequences than slots');
      this.#evict(victim);
      // The evicted entry was the match itself: one slot cannot be both.
      if (victim === prefix.entry) [source, length] = [null, 0];
    }
    const slot = this.#ledger.openSlot(account);
    if (source !== null && length > 0) {
      this.#ledger.share(source, slot, length);
      this.#runner.share(source, slot, length);
    }
    sequence.slot = slot;
    sequence.numComputed = length;
  }

  /** Evicts entries as needed. At least `count` cells must be obtainable. */
  grow(sequence: Sequence, count: number): void {
    assert(sequence.slot !== null, 'only a running sequence grows');
    while (this.#ledger.freeCells < count) {
      const victim = this.#entryToEvict();
      assert(victim, `${count} cells asked, ${this.obtainableTokens} obtainable`);
      this.#evict(victim);
    }
    this.#ledger.append(sequence.slot, count);
  }

  /** Releases planned and computed cells. */
  release(sequence: Sequence): void {
    if (sequence.slot === null) return;
    this.#close(sequence.slot);
    sequence.slot = null;
    sequence.numComputed = 0;
    this.#trim(); // cells shared with an entry now belong only to the entry
  }

  /**
   * Keeps an ended sequence's cells as an entry that replaces entries it contains; releases them if an entry
   * contains it, or the runner can share none of them.
   */
  retain(sequence: Sequence): void {
    const { slot, numComputed } = sequence;
    if (slot === null) return;
    const tokens = sequence.tokens.slice(0, numComputed);
    // Nothing could share it, or a plan that never ran left cells without content.
    if (this.shareable(slot, numComputed) === 0 || this.#ledger.lengthOf(slot) !== numComputed)
      return this.release(sequence);
    const { namespace } = sequence.owner;
    for (const entry of this.#prefixes.inNamespace(namespace)) {
      const length = commonPrefixLength(tokens, entry.tokens, Infinity);
      if (length === tokens.length) {
        this.#prefixes.touch(entry);
        return this.release(sequence);
      }
      if (length === entry.tokens.length) this.#evict(entry);
    }
    this.#ledger.markCached(slot);
    this.#prefixes.add({ namespace, tokens, slot });
    sequence.slot = null;
    sequence.numComputed = 0;
    this.#trim();
  }

  evictAll(): boolean {
    const { hasEntries } = this;
    for (const entry of this.#prefixes.entries()) this.#evict(entry);
    return hasEntries;
  }

  checkIntegrity(running: readonly Sequence[]): void {
    this.#ledger.checkIntegrity();
    const slots = new Set<number>();
    for (const { slot, numComputed, tokens, isParked } of running) {
      assert(slot !== null && !slots.has(slot), 'a running sequence has a slot of its own');
      slots.add(slot);
      assert.equal(this.#ledger.lengthOf(slot), numComputed, 'cells of a running sequence');
      assert(numComputed < tokens.length || isParked, 'the last token waits to be computed');
    }
    for (const { slot, tokens } of this.#prefixes.entries()) {
      assert(!slots.has(slot), 'an entry has a slot of its own');
      slots.add(slot);
      assert.equal(this.#ledger.lengthOf(slot), tokens.length, 'cells of a cache entry');
    }
    assert.equal(slots.size + this.#ledger.freeSlots, this.#runner.maxSequences, 'slots');
    assert(
      this.cachedTokens <= this.#maxCachedTokens,
      `${this.cachedTokens} cached tokens of ${this.#maxCachedTokens}`,
    );
  }

  #trim(): void {
    while (this.cachedTokens > this.#maxCachedTokens) this.#evict(this.#entryToEvict()!);
  }

  /** Least recently used entry of the tenant with the most cached cells. */
  #entryToEvict(): CacheEntry | undefined {
    let chosen: CacheEntry | undefined;
    let most = -1;
    for (const entry of this.#prefixes.entries()) {
      const { heldCells, liveCells } = this.#ledger.accountOf(entry.slot);
      if (heldCells - liveCells > most) [chosen, most] = [entry, heldCells - liveCells];
    }
    return chosen;
  }

  #evict(entry: CacheEntry): void {
    this.#prefixes.remove(entry);
    this.#close(entry.slot);
  }

  #close(slot: number): void {
    this.#ledger.closeSlot(slot);
    this.#runner.forget(slot, 0);
  }
}
