import { expect, test } from 'vitest';

import { distanceOfScores } from './fixed-scores.ts';

const reference = { tokenIds: [4, 5, 6, 7], logprobs: [null, -1, -2, -3] };

test('the distance is the mean over all tokens but the first, whichever form the scores have', () => {
  const withFirst = distanceOfScores(reference, [null, -1, -2.5, -2]);
  expect(withFirst).toEqual({
    mean: 0.5,
    words: 'log-probabilities of 3 fixed tokens differ by 0.50 nats on average',
  });
  expect(distanceOfScores(reference, Float32Array.of(-1, -2.5, -2))).toEqual(withFirst);
});

test.each([
  ['one is missing', [null, -1, null, -3]],
  ['there are too few', [-1, -2]],
  ['there are none', []],
  ['one is no number', [-1, NaN, -3]],
])('no distance is reported when %s', (_what, found) => {
  expect(distanceOfScores(reference, found)).toEqual({
    mean: NaN,
    words: 'some log-probabilities of 3 fixed tokens are missing',
  });
});
