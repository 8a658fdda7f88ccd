import assert from 'node:assert/strict';
import { PAGE_TOKENS } from './page-format.ts';

/** Tokens to copy into another page before a write. */
export interface PageCopy {
  readonly from: number;
  readonly to: number;
  readonly numTokens: number;
}

/**
 * Pages of each sequence, like vLLM's block tables (Kwon et al. 2023, arXiv:2309.06180). A sequence that writes
 * into a shared page first gets its own copy.
 */
export class PageTables {
  readonly #free: number[];
  readonly #holders: Int32Array;
  readonly #pages: readonly number[][];
  readonly #lengths: Int32Array;

  /**
   * Pages for `numTokens` distinct tokens: the last page of each sequence may be almost empty, and each of the
   * `maxSequences - 1` forks within a page duplicates the tokens before it.
   */
  static numPages({ numTokens, maxSequences }: { numTokens: number; maxSequences: number }): number {
    return Math.floor(numTokens / PAGE_TOKENS) + 2 * maxSequences - 1;
  }

  constructor({ numPages, maxSequences }: { numPages: number; maxSequences: number }) {
    // Low pages first, so that memory is touched only as needed.
    this.#free = Array.from({ length: numPages }, (_, i) => numPages - 1 - i);
    this.#holders = new Int32Array(numPages);
    this.#pages = Array.from({ length: maxSequences }, () => []);
    this.#lengths = new Int32Array(maxSequences);
  }

  get numFree(): number {
    return this.#free.length;
  }

  lengthOf(sequence: number): number {
    return this.#lengths[sequence]!;
  }

  /** Pages of a sequence, in order; valid until it changes. */
  pagesOf(sequence: number): readonly number[] {
    return this.#pages[sequence]!;
  }

  /** Free pages that {@link append} would take in total. @param counts tokens by sequence */
  pagesNeeded(counts: ReadonlyMap<number, number>): number {
    let needed = 0;
    const writersOf = new Map<number, number>();
    for (const [sequence, count] of counts) {
      const length = this.lengthOf(sequence);
      needed += pagesOf(length + count) - pagesOf(length);
      if (!this.#sharesLastPage(sequence)) continue;
      const page = this.#pages[sequence]!.at(-1)!;
      writersOf.set(page, (writersOf.get(page) ?? 0) + 1);
    }
    // If all holders of a page write into it, the last needs no copy.
    for (const [page, numWriters] of writersOf) needed += Math.min(numWriters, this.#holders[page]! - 1);
    return needed;
  }

  /** Makes room for tokens at the end of a sequence. Enough pages must be free. @returns the copy to make, or null */
  append(sequence: number, count: number): PageCopy | null {
    const pages = this.#pages[sequence]!;
    const length = this.lengthOf(sequence);
    let copy: PageCopy | null = null;
    if (this.#sharesLastPage(sequence)) {
      const from = pages.pop()!;
      const to = this.#take();
      this.#holders[from]!--;
      pages.push(to);
      copy = { from, to, numTokens: length % PAGE_TOKENS };
    }
    while (pages.length < pagesOf(length + count)) pages.push(this.#take());
    this.#lengths[sequence] = length + count;
    return copy;
  }

  /** Makes the empty sequence `to` share the first tokens of `from`. */
  share(from: number, to: number, length: number): void {
    assert.equal(this.lengthOf(to), 0, 'only an empty sequence shares');
    assert(length <= this.lengthOf(from), `${length} tokens shared of ${this.lengthOf(from)}`);
    const pages = this.#pages[from]!.slice(0, pagesOf(length));
    for (const page of pages) this.#holders[page]!++;
    this.#pages[to]!.push(...pages);
    this.#lengths[to] = length;
  }

  forget(sequence: number, fromPosition: number): void {
    if (fromPosition >= this.lengthOf(sequence)) return;
    // Freed pages are reused first to last, so that sequences stay adjacent in memory for the prefetch.
    for (const page of this.#pages[sequence]!.splice(pagesOf(fromPosition)).reverse()) {
      if (--this.#holders[page]! === 0) this.#free.push(page);
    }
    this.#lengths[sequence] = fromPosition;
  }

  #sharesLastPage(sequence: number): boolean {
    const last = this.#pages[sequence]!.at(-1);
    return this.lengthOf(sequence) % PAGE_TOKENS > 0 && last !== undefined && this.#holders[last]! > 1;
  }

  #take(): number {
    const page = this.#free.pop();
    assert(page !== undefined, 'no page is free');
    this.#holders[page] = 1;
    return page;
  }
}

const pagesOf = (length: number): number => Math.ceil(length / PAGE_TOKENS);
