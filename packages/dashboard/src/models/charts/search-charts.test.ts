import { expect, test } from 'vitest';

import { chartGroupsOf } from './chart-specs.ts';
import { searchCharts } from './search-charts.ts';

const groups = chartGroupsOf([
  'train/reward',
  'val/reward',
  'train/fresh/probs_corr',
  'train/rollouts/words',
  'train/odd',
]);
const titles = (search: string, hidden: string[] = []) =>
  searchCharts(groups, search, hidden).flatMap(({ charts }) => charts.map(({ title }) => title));

test.each([
  ['REWARD', ['Reward', 'Reward of val']],
  ['train/*words', ['words']],
  ['/^val/', ['Reward of val']],
  ['/probs|odd/', ['1 − correlation of probabilities', 'train/odd']],
  ['/(/', []],
  ['(', []],
])('%s finds %j', (search, found) => expect(titles(search)).toEqual(found));

test('nothing to search for finds all but the hidden charts', () => {
  expect(titles('').length).toBe(titles(' ').length);
  expect(titles('', ['Reward'])).not.toContain('Reward');
});
