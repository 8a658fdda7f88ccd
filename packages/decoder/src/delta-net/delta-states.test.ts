/** A sequence with gated delta nets continues from each kept state, to the bit. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { TINY_ARCHITECTURES, writeTinyGguf } from '@trainyard/transformer/testing';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { PagedDecoder } from '../batch/paged-decoder.ts';
import { apart, compute, inChunks, OTHERS, TOKENS, tokensOf, whole } from '../batch/testing/sequence-runs.ts';
import { STATE_INTERVAL } from './delta-states.ts';

const directory = mkdtempSync(join(tmpdir(), 'delta-'));
const path = join(directory, 'qwen35.gguf');
const capacityTokens = 4 * STATE_INTERVAL;
let decoder: PagedDecoder;
beforeAll(() =>
  writeTinyGguf(path, TINY_ARCHITECTURES.qwen35, { metadata: { 'qwen35.context_length': { u32: capacityTokens } } }),
);
afterAll(() => rmSync(directory, { recursive: true }));
beforeEach(() => {
  decoder = PagedDecoder.open(path, { capacityTokens, maxSequences: 4, batchTokens: capacityTokens, numThreads: 2 });
});
afterEach(() => decoder.close());

test('a prompt in chunks, token by token and next to another one has the logits of one batch', () => {
  const expected = whole(decoder, 0, TOKENS);
  for (const size of [1, 2, 3, 16, 17]) expect(inChunks(decoder, size)).toEqual(expected);
});

test.each([1, 2, 3, 16, 17, 33])(
  'sequences that share their first %i tokens, which were kept, continue apart',
  (length) => {
    const mixed = [...TOKENS.slice(0, length), ...OTHERS.slice(length)];
    const [expected, other] = [whole(decoder, 0, TOKENS), whole(decoder, 3, mixed)];
    for (const sequence of [0, 3]) decoder.forget(sequence, 0);
    const to = TOKENS.length;
    compute(decoder, { sequence: 0, tokens: TOKENS, from: 0, to, keeps: length - 1 });
    expect([length + 1, length, length - 1].map((some) => decoder.shareableLength(0, some))).toEqual([
      length,
      length,
      0,
    ]);
    decoder.share(0, 1, length);
    decoder.share(1, 2, length);
    const { found, own, copied } = apart(decoder, length, mixed);
    expect(found).toEqual([other.slice(length), expected.slice(length)]);
    // The first one did not change.
    expect(copied).toEqual(own);
  },
);

test('the choices of a prompt start before its last token, in any chunks of the prompt, and others at its end', () => {
  const expected = whole(decoder, 3, TOKENS);
  for (const chunk of [20, 19, 7]) {
    for (const sequence of [0, 1, 2]) decoder.forget(sequence, 0);
    for (let from = 0; from < 20; from += chunk)
      compute(decoder, { sequence: 0, tokens: TOKENS, from, to: Math.min(20, from + chunk), wantsFrom: 19 });
    compute(decoder, { sequence: 0, tokens: TOKENS, from: 20, to: 30 });
    expect(decoder.shareableLength(0, 25)).toBe(19);
    expect(decoder.shareableLength(0, 30)).toBe(30);
    decoder.share(0, 1, 19);
    expect(compute(decoder, { sequence: 1, tokens: TOKENS, from: 19, to: 40 })[0]).toEqual(expected.slice(19));
    // A conversation goes on: its next prompt has a state of its own, the older one is gone.
    decoder.share(0, 2, 30);
    compute(decoder, { sequence: 2, tokens: TOKENS, from: 30, to: 40, wantsFrom: 39 });
    expect(decoder.shareableLength(2, 38)).toBe(0);
    expect(decoder.shareableLength(2, 39)).toBe(39);
  }
});

test('states are kept at intervals of a long prompt, for a longer and a shorter common part', () => {
  const tokens = tokensOf(2 * STATE_INTERVAL + 100);
  const end = tokens.length;
  const expected = compute(decoder, { sequence: 0, tokens, from: 0, to: end, wantsFrom: end - 1 })[0];
  for (const [common, length] of [
    [STATE_INTERVAL - 1, 0],
    [STATE_INTERVAL + 7, STATE_INTERVAL],
    [2 * STATE_INTERVAL + 50, 2 * STATE_INTERVAL],
  ] as const) {
    expect(decoder.shareableLength(0, common)).toBe(length);
    if (length === 0) continue;
    decoder.share(0, 1, length);
    expect(compute(decoder, { sequence: 1, tokens, from: length, to: end, wantsFrom: end - 1 })[0]).toEqual(expected);
    decoder.forget(1, 0);
  }
  expect(() => decoder.share(0, 2, 5)).toThrow('no state after 5 tokens of sequence 0');
});

test('a sequence goes back to a kept state, and a forgotten one leaves no trace', () => {
  const expected = whole(decoder, 0, TOKENS);
  decoder.forget(0, 0);
  compute(decoder, { sequence: 0, tokens: TOKENS, from: 0, to: 40, keeps: 17 });
  decoder.forget(0, 18);
  compute(decoder, { sequence: 0, tokens: OTHERS, from: 18, to: 25 });
  decoder.forget(0, 18);
  expect(compute(decoder, { sequence: 0, tokens: TOKENS, from: 18, to: 40 })[0]).toEqual(expected.slice(18));
  whole(decoder, 1, OTHERS);
  decoder.forget(0, 0);
  decoder.forget(1, 0);
  expect(whole(decoder, 2, TOKENS)).toEqual(expected);
});
