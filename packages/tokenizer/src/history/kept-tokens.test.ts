import type { KeptTokens } from '@trainyard/protocol/fields';
import { expect, it } from 'vitest';
import { isKept, KeptTokensWriter, readKeptTokens } from './kept-tokens.ts';

const kept = (ids: readonly number[], isComplement = false): KeptTokens => ({
  isComplement,
  ids: Int32Array.from(ids),
});

it('come back as they were, each set once', () => {
  const sets = [kept([0]), kept([5, 6, 127, 128, 49_151]), kept([3, 90_000], true), kept([])];
  const writer = new KeptTokensWriter();
  for (const set of [sets[1]!, null, sets[0]!, sets[1]!, sets[2]!, null, sets[3]!]) writer.add(set);
  const bytes = writer.bytes();
  const read = readKeptTokens(bytes, 7)!;
  expect([...read.setOf]).toEqual([0, -1, 1, 0, 2, -1, 3]);
  expect(read.sets).toEqual([sets[1], sets[0], sets[2], sets[3]]);
  expect(writer.sizeBytes).toBe(bytes.length - 1);
});

it('take a byte per token if a constraint repeats the same set', () => {
  const writer = new KeptTokensWriter();
  const quotes = kept(
    Array.from({ length: 2000 }, (_, i) => i * 20),
    true,
  );
  for (let token = 0; token < 500; token++) writer.add(quotes);
  console.log(`500 tokens of a set that lacks 2,000 ids: ${writer.sizeBytes} bytes`);
  expect(writer.sizeBytes).toBeLessThan(2000 + 500 + 4);
});

it('of other bytes are none', () => {
  const writer = new KeptTokensWriter();
  writer.add(kept([1, 2, 3]));
  const bytes = writer.bytes();
  expect(readKeptTokens(bytes.subarray(0, -1), 1)).toBeNull();
  expect(readKeptTokens(bytes, 2)).toBeNull();
  expect(readKeptTokens(Uint8Array.of(...bytes, 0), 1)).toBeNull();
  expect(readKeptTokens(Uint8Array.of(0, 5), 1)).toBeNull();
  expect(readKeptTokens(new Uint8Array(), 1)).toBeNull();
  expect(readKeptTokens(Uint8Array.of(255, 255, 255, 255, 15), 0)).toBeNull();
});

it('look up a token in a set', () => {
  for (const [set, expected] of [
    [kept([2, 4]), [false, true, false, true, false]],
    [kept([2, 4], true), [true, false, true, false, true]],
    [kept([]), [false, false, false, false, false]],
  ] as const)
    expect([1, 2, 3, 4, 5].map((id) => isKept(set, id))).toEqual(expected);
});
