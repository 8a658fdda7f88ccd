/** A sequence with convolutions continues from any of its tokens, to the bit. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { TINY_ARCHITECTURES, writeTinyGguf } from '@trainyard/transformer/testing';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { PagedDecoder } from '../batch/paged-decoder.ts';
import { apart, compute, inChunks, OTHERS, TOKENS, whole } from '../batch/testing/sequence-runs.ts';

const directory = mkdtempSync(join(tmpdir(), 'convolution-'));
const path = join(directory, 'lfm2.gguf');
let decoder: PagedDecoder;
beforeAll(() => writeTinyGguf(path, TINY_ARCHITECTURES.lfm2));
afterAll(() => rmSync(directory, { recursive: true }));
beforeEach(() => {
  decoder = PagedDecoder.open(path, { capacityTokens: 256, maxSequences: 4, batchTokens: 128, numThreads: 2 });
});
afterEach(() => decoder.close());

test('a prompt in chunks, token by token and next to another one has the logits of one batch', () => {
  const expected = whole(decoder, 0, TOKENS);
  for (const size of [1, 2, 3, 16, 17]) expect(inChunks(decoder, size)).toEqual(expected);
});

test.each([1, 2, 3, 15, 16, 17, 18, 33])('sequences that share their first %i tokens continue apart', (length) => {
  const mixed = [...TOKENS.slice(0, length), ...OTHERS.slice(length)];
  const [expected, other] = [whole(decoder, 0, TOKENS), whole(decoder, 3, mixed)];
  decoder.forget(3, 0);
  decoder.share(0, 1, length);
  decoder.share(0, 2, length);
  const { found, own, copied } = apart(decoder, length, mixed);
  expect(found).toEqual([other.slice(length), expected.slice(length)]);
  // The first one did not change.
  expect(copied).toEqual(own);
});

test('a sequence goes back to an earlier token, and pages of a forgotten one leave no trace', () => {
  const expected = whole(decoder, 0, TOKENS);
  decoder.forget(0, 18);
  compute(decoder, { sequence: 0, tokens: OTHERS, from: 18, to: 25 });
  decoder.forget(0, 18);
  expect(compute(decoder, { sequence: 0, tokens: TOKENS, from: 18, to: 40 })[0]).toEqual(expected.slice(18));
  whole(decoder, 1, OTHERS);
  decoder.forget(0, 0);
  decoder.forget(1, 0);
  expect(whole(decoder, 2, TOKENS)).toEqual(expected);
});
