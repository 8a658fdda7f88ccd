import assert from 'node:assert/strict';
import { PAGE_TOKENS } from './page-format.ts';

/** The first tokens of a page that are copied into another, before anything is written there. */
export interface PageCopy {
  readonly from: number;
  readonly to: number;
  readonly numTokens: number;
}

/**
 * Which pages of a memory hold which tokens of which sequence, as vLLM's block tables have it (Kwon et al. 2023, arXiv:2309.06180).
 *
 * A page may belong to several sequences; who writes into one that others hold gets a copy of its own first.
 */
export class PageTables {
  readonly #free: number[];
  /** Sequences that hold each page. */
  readonly #holders: Int32Array;
  readonly #pages: readonly number[][];
  readonly #lengths: Int32Array;

  /**
   * As many as sequences with so many different tokens in all can ever take. The last page of each may be all but empty, and where two part within a page, of which
   * there is one place less than sequences, the tokens before it are there twice.
   */
  static numPages({ numTokens, maxSequences }: { numTokens: number; maxSequences: number }): number {
    return Math.floor(numTokens / PAGE_TOKENS) + 2 * maxSequences - 1;
  }

  constructor({ numPages, maxSequences }: { numPages: number; maxSequences: number }) {
    // Low ones first, so that memory is touched as it is needed.
    this.#free = Array.from({ length: numPages }, (_, i) => numPages - 1 - i);
    this.#holders = new Int32Array(numPages);
    this.#pages = Array.from({ length: maxSequences }, () => []);
    this.#lengths = new Int32Array(maxSequences);
  }

  get numFree(): number {
    return this.#free.length;
  }

  /** Tokens of a sequence. */
  lengthOf(sequence: number): number {
    return this.#lengths[sequence]!;
  }

  /** Pages of a sequence, in order; valid until it changes. */
  pagesOf(sequence: number): readonly number[] {
    return this.#pages[sequence]!;
  }

  /** Free pages that {@link append} would take in all. @param counts tokens by sequence */
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
    // When all who hold a page write into it, the last one needs no copy.
    for (const [page, numWriters] of writersOf) needed += Math.min(numWriters, this.#holders[page]! - 1);
    return needed;
  }

  /** Makes room for tokens behind a sequence. As many pages as they need must be free. @returns the copy to be made, or null */
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

  /** Lets the empty sequence `to` hold the first tokens of `from`. */
  share(from: number, to: number, length: number): void {
    assert.equal(this.lengthOf(to), 0, 'only an empty sequence shares');
    assert(length <= this.lengthOf(from), `${length} tokens shared of ${this.lengthOf(from)}`);
    const pages = this.#pages[from]!.slice(0, pagesOf(length));
    for (const page of pages) this.#holders[page]!++;
    this.#pages[to]!.push(...pages);
    this.#lengths[to] = length;
  }

  /** Removes the tokens from a position on. */
  forget(sequence: number, fromPosition: number): void {
    if (fromPosition >= this.lengthOf(sequence)) return;
    // The first of them is the next to be taken: pages of a sequence follow each other in memory, too, where it can be, which the processor reads ahead.
    for (const page of this.#pages[sequence]!.splice(pagesOf(fromPosition)).reverse()) {
      if (--this.#holders[page]! === 0) this.#free.push(page);
    }
    this.#lengths[sequence] = fromPosition;
  }

  /** Whether the next token of a sequence goes into a page that others hold, too. */
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
