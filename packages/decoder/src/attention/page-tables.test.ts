import { expect, test } from 'vitest';
import { randomSource } from '@trainyard/transformer/testing';
import { PAGE_TOKENS } from './page-format.ts';
import { PageTables } from './page-tables.ts';

const needed = (tables: PageTables, sequence: number, count: number) =>
  tables.pagesNeeded(new Map([[sequence, count]]));

test('a sequence takes a page for each 16 tokens, and gives them back', () => {
  const tables = new PageTables({ numPages: 4, maxSequences: 2 });
  expect(needed(tables, 0, 16)).toBe(1);
  expect(tables.append(0, 16)).toBeNull();
  expect(needed(tables, 0, 1)).toBe(1);
  tables.append(0, 17);
  expect(tables.pagesOf(0)).toEqual([0, 1, 2]);
  expect(tables.numFree).toBe(1);
  tables.forget(0, 17);
  expect([tables.lengthOf(0), tables.pagesOf(0)]).toEqual([17, [0, 1]]);
  tables.forget(0, 16);
  expect(tables.pagesOf(0)).toEqual([0]);
  tables.forget(0, 0);
  expect(tables.numFree).toBe(4);
});

test('a writer after a shared prefix gets a copy of its last page, except the last holder', () => {
  const tables = new PageTables({ numPages: 8, maxSequences: 3 });
  tables.append(0, 20);
  tables.share(0, 1, 20);
  tables.share(0, 2, 18);
  expect(tables.numFree).toBe(6);
  expect(needed(tables, 1, 1)).toBe(1);
  expect(tables.append(1, 1)).toEqual({ from: 1, to: 2, numTokens: 4 });
  expect(tables.append(2, 14)).toEqual({ from: 1, to: 3, numTokens: 2 });
  expect(needed(tables, 0, 1)).toBe(0);
  expect(tables.append(0, 1)).toBeNull();
  expect([0, 1, 2].map((sequence) => tables.pagesOf(sequence))).toEqual([
    [0, 1],
    [0, 2],
    [0, 3],
  ]);
});

test('a prefix outlives its first holder; a whole page needs no copy', () => {
  const tables = new PageTables({ numPages: 4, maxSequences: 2 });
  tables.append(0, 32);
  tables.share(0, 1, 16);
  tables.forget(0, 0);
  expect(tables.numFree).toBe(3);
  expect(tables.append(1, 1)).toBeNull();
  expect(tables.pagesOf(1)[0]).toBe(0);
});

test('any history: pages hold the right tokens, and never more than two per sequence beyond the tokens', () => {
  const random = randomSource(5);
  const below = (bound: number) => Math.floor(((1 + random()) / 2) * bound);
  const [maxSequences, numTokens] = [6, 400];
  const numPages = PageTables.numPages({ numTokens, maxSequences });
  const tables = new PageTables({ numPages, maxSequences });
  /** Content of every slot of every page, and the expected content of each sequence. */
  const slots = new Map<string, number>();
  const sequences: number[][] = Array.from({ length: maxSequences }, () => []);
  const distinct = () => new Set(sequences.flat()).size;
  let next = 0;
  let mostPages = 0;
  for (let round = 0; round < 5_000; round++) {
    const sequence = below(maxSequences);
    const own = sequences[sequence]!;
    const kind = below(4);
    if (kind < 2) {
      const count = 1 + below(40);
      if (distinct() + count > numTokens) continue;
      expect(needed(tables, sequence, count)).toBeLessThanOrEqual(tables.numFree);
      const copy = tables.append(sequence, count);
      for (let slot = 0; slot < (copy?.numTokens ?? 0); slot++)
        slots.set(`${copy!.to}.${slot}`, slots.get(`${copy!.from}.${slot}`)!);
      for (let i = 0; i < count; i++, next++) {
        slots.set(
          `${tables.pagesOf(sequence)[Math.floor(own.length / PAGE_TOKENS)]}.${own.length % PAGE_TOKENS}`,
          next,
        );
        own.push(next);
      }
    } else if (kind === 2) {
      const length = below(own.length + 1);
      tables.forget(sequence, length);
      own.length = length;
    } else {
      const from = below(maxSequences);
      if (from === sequence) continue;
      tables.forget(sequence, 0);
      const length = below(sequences[from]!.length + 1);
      tables.share(from, sequence, length);
      sequences[sequence] = sequences[from]!.slice(0, length);
    }
    mostPages = Math.max(mostPages, numPages - tables.numFree);
    for (const [index, tokens] of sequences.entries()) {
      const held = tokens.map((_, i) =>
        slots.get(`${tables.pagesOf(index)[Math.floor(i / PAGE_TOKENS)]}.${i % PAGE_TOKENS}`)!,
      );
      if (held.join() !== tokens.join()) expect(held).toEqual(tokens);
    }
  }
  console.log(`at most ${mostPages} pages for ${numTokens} tokens of ${maxSequences} sequences`);
  for (let sequence = 0; sequence < maxSequences; sequence++) tables.forget(sequence, 0);
  expect(tables.numFree).toBe(numPages);
});

test('sequences that all part within a page, and end in one that is all but empty, take as many pages as there are', () => {
  const maxSequences = 16;
  const numTokens = 31 + 2 * maxSequences;
  const tables = new PageTables({ numPages: PageTables.numPages({ numTokens, maxSequences }), maxSequences });
  tables.append(0, 31);
  for (let sequence = 1; sequence < maxSequences; sequence++) tables.share(0, sequence, 31);
  // A copy for all but one, and another page for each.
  const counts = new Map(Array.from({ length: maxSequences }, (_, sequence) => [sequence, 2] as const));
  expect(tables.pagesNeeded(counts)).toBe(2 * maxSequences - 1);
  expect(tables.pagesNeeded(new Map([...counts].slice(1)))).toBe(2 * maxSequences - 2);
  for (const [sequence, count] of counts) tables.append(sequence, count);
  expect(tables.numFree).toBe(PageTables.numPages({ numTokens, maxSequences }) - 2 * maxSequences - 1);
});
