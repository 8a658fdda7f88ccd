/** A sequence with convolutions continues from any of its tokens, to the bit. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { TINY_ARCHITECTURES, writeTinyGguf } from '@trainyard/transformer/testing';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { DecoderBatch } from '../batch/decoder-batch.ts';
import { PagedDecoder } from '../batch/paged-decoder.ts';

const directory = mkdtempSync(join(tmpdir(), 'convolution-'));
const path = join(directory, 'lfm2.gguf');
const TOKENS = Array.from({ length: 40 }, (_, i) => (37 * i + 5) % 256);
const OTHERS = TOKENS.map((token) => (token + 91) % 256);
let decoder: PagedDecoder;
beforeAll(() => writeTinyGguf(path, TINY_ARCHITECTURES.lfm2));
afterAll(() => rmSync(directory, { recursive: true }));
beforeEach(() => {
  decoder = PagedDecoder.open(path, { capacityTokens: 256, maxSequences: 4, batchTokens: 128, numThreads: 2 });
});
afterEach(() => decoder.close());

interface Piece {
  readonly sequence: number;
  readonly tokens: readonly number[];
  readonly from: number;
  readonly to: number;
}

/** Logits after each token of the pieces, which are one batch. */
function compute(...pieces: readonly Piece[]): Float32Array[][] {
  const batch = new DecoderBatch(128);
  for (const { sequence, tokens, from, to } of pieces)
    for (let position = from; position < to; position++)
      batch.add({ token: tokens[position]!, position, sequence, wantsLogits: true });
  const rows = decoder.run(batch);
  let row = 0;
  return pieces.map(({ from, to }) => Array.from({ length: to - from }, () => rows.row(row++).slice()));
}

const whole = (sequence: number, tokens: readonly number[]): Float32Array[] =>
  compute({ sequence, tokens, from: 0, to: tokens.length })[0]!;

test('a prompt in chunks, token by token and next to another one has the logits of one batch', () => {
  const expected = whole(0, TOKENS);
  for (const size of [1, 2, 3, 16, 17]) {
    decoder.forget(1, 0);
    decoder.forget(2, 0);
    for (let from = 0; from < TOKENS.length; from += size) {
      const to = Math.min(from + size, TOKENS.length);
      const [found] = compute({ sequence: 1, tokens: TOKENS, from, to }, { sequence: 2, tokens: OTHERS, from, to });
      expect(found).toEqual(expected.slice(from, to));
    }
  }
});

test.each([1, 2, 3, 15, 16, 17, 18, 33])('sequences that share their first %i tokens continue apart', (length) => {
  const mixed = [...TOKENS.slice(0, length), ...OTHERS.slice(length)];
  const [expected, other] = [whole(0, TOKENS), whole(3, mixed)];
  decoder.forget(3, 0);
  decoder.share(0, 1, length);
  decoder.share(0, 2, length);
  const to = TOKENS.length;
  const found = compute(
    { sequence: 1, tokens: mixed, from: length, to },
    { sequence: 2, tokens: TOKENS, from: length, to },
  );
  expect(found).toEqual([other.slice(length), expected.slice(length)]);
  // The first one did not change.
  const next = { tokens: [...TOKENS, 7], from: to, to: to + 1 };
  const [own, copied] = compute({ sequence: 0, ...next }, { sequence: 2, ...next });
  expect(copied).toEqual(own);
});

test('a sequence goes back to an earlier token, and pages of a forgotten one leave no trace', () => {
  const expected = whole(0, TOKENS);
  decoder.forget(0, 18);
  compute({ sequence: 0, tokens: OTHERS, from: 18, to: 25 });
  decoder.forget(0, 18);
  expect(compute({ sequence: 0, tokens: TOKENS, from: 18, to: 40 })[0]).toEqual(expected.slice(18));
  whole(1, OTHERS);
  decoder.forget(0, 0);
  decoder.forget(1, 0);
  expect(whole(2, TOKENS)).toEqual(expected);
});
