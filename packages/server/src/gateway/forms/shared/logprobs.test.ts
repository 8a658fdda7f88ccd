import type { TokenLogprob } from '@trainyard/backend';
import { expect, test } from 'vitest';

import { toChoiceLogprobs } from './logprobs.ts';

/** The first of the three bytes of '€': part of a character, sampled although two others were more likely. */
const SAMPLED: TokenLogprob = {
  id: 900,
  logprob: -7,
  bytes: [226],
  text: '\uFFFD',
  top: [
    { id: 900, logprob: -7, bytes: [226], text: '\uFFFD' },
    { id: 5, logprob: -0.25, bytes: [97], text: 'a' },
    { id: 6, logprob: -Infinity, bytes: [98], text: 'b' },
  ],
};

test('top_logprobs is the row of the engine: the sampled token first at any rank, then by probability', () => {
  const entry = toChoiceLogprobs([SAMPLED], false)?.content[0];
  expect(entry).toEqual({
    token: '\uFFFD',
    logprob: -7,
    bytes: [226],
    top_logprobs: [
      { token: '\uFFFD', logprob: -7, bytes: [226] },
      { token: 'a', logprob: -0.25, bytes: [97] },
      { token: 'b', logprob: -9999, bytes: [98] },
    ],
  });
});

test('−9999 is the floor of all values, and an empty row is an empty list', () => {
  const entry = toChoiceLogprobs([{ ...SAMPLED, logprob: -12_345, top: [] }], false)?.content[0];
  expect([entry?.logprob, entry?.top_logprobs]).toEqual([-9999, []]);
});

test('tokens written as ids: the entry keeps the bytes of its token, top_logprobs have the bytes of the id text', () => {
  const entry = toChoiceLogprobs([SAMPLED], true)?.content[0];
  expect([entry?.token, entry?.bytes]).toEqual(['token_id:900', [226]]);
  const tops = entry?.top_logprobs ?? [];
  expect(tops.map((top) => top.token)).toEqual(['token_id:900', 'token_id:5', 'token_id:6']);
  for (const top of tops) expect(String.fromCharCode(...top.bytes)).toBe(top.token);
});

test('without logprobs there is null, and no tokens give an empty list', () => {
  expect(toChoiceLogprobs(null, false)).toBeNull();
  expect(toChoiceLogprobs([], false)).toEqual({ content: [] });
});
