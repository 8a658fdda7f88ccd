import type { SeriesObject } from '@trainyard/sdk';
import { expect, test } from 'vitest';

import { hoursOf, stepAt, tokensOf } from './axis-places.ts';

const series = (changes: Partial<SeriesObject>): SeriesObject => ({
  name: 'x',
  num_places: 2,
  first: [1, 2],
  last: [1, 3],
  mean: [10, 20],
  min: [10, 10],
  max: [10, 30],
  count: [2, 2],
  recorded_at: [3600, 9000],
  discarded: { at: [4], value: [1], job_id: ['j'] },
  ...changes,
});

test('points are placed at the hours since the start, and at the tokens trained so far', () => {
  expect(hoursOf(series({}), 1800)).toEqual({ points: [0.5, 2], discarded: [2] });
  const reward = series({ last: [0, 1, 2, 3], mean: [0, 0, 0, 0], count: [1, 1, 1, 1] });
  expect(tokensOf(reward, series({}))).toEqual({ points: [0, 20, 20, 60], discarded: [60] });
  expect(tokensOf(reward, undefined).points).toEqual([0, 0, 0, 0]);
});

test('a place on an axis is of the nearest step', () => {
  expect(stepAt([0.5, 2, 9], [1, 3, 5], 2.5)).toBe(3);
  expect(stepAt([], [], 1)).toBeNull();
});
