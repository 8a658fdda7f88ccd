import { expect, test } from 'vitest';

import {
  compareFingerprints,
  type Fingerprint,
  fingerprintPrompts,
  likeliest,
  numListedTokens,
} from './fingerprint.ts';

/** Lists of 20 tokens from an id on, with log-probabilities that fall by 0.1. */
function fingerprint(first: number, shift = 0): Fingerprint {
  return fingerprintPrompts(49_152).map(
    () => new Map(Array.from({ length: 20 }, (_, rank) => [first + rank, -1 - rank / 10 + shift])),
  );
}

test('the same weights with other numerics match, even if the ends of lists differ', () => {
  expect(() => compareFingerprints(fingerprint(0), fingerprint(0, 0.05), 'here')).not.toThrow();
  const others = fingerprint(0).map(
    (list) => new Map([...list].map(([id, logprob], rank) => [rank < 15 ? id : id + 500, logprob])),
  );
  expect(() => compareFingerprints(fingerprint(0), others, 'here')).not.toThrow();
});

test.each([
  [
    'other log-probabilities',
    fingerprint(0, 0.2),
    /^here has different weights.*after 4 fixed prompts differ by 0\.20 nats/,
  ],
  ['other tokens', fingerprint(11), /^here has different weights than the pool: other tokens are likely/],
  ['no tokens', [], /other tokens are likely/],
])('%s are other weights', (_what, found, message) => {
  expect(() => compareFingerprints(fingerprint(0), found, 'here')).toThrow(message);
});

test('prompts are short, start alike, and have tokens of the vocabulary', () => {
  const prompts = fingerprintPrompts(100);
  expect(prompts.map(({ length }) => length)).toEqual([8, 16, 24, 32]);
  expect(prompts[3]!.slice(0, 24)).toEqual(prompts[2]);
  expect(Math.max(...prompts.flat())).toBeLessThan(100);
});

test('the drawn token counts only as one of the list', () => {
  const top = Array.from({ length: 21 }, (_, at) => ({ id: at, logprob: -20 + at }));
  const list = likeliest({ id: 0, logprob: -20, top }, 20);
  expect([list.size, list.has(0), list.get(20)]).toEqual([20, false, 0]);
});

test('servers that list few tokens have no fingerprint', () => {
  expect([20, 256, 5, 4, 0, -1].map(numListedTokens)).toEqual([20, 20, 5, null, null, 20]);
});
