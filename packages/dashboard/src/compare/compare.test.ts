import { expect, test } from 'vitest';

import { differingSettings } from './compared-settings.ts';
import { comparedLines, lineLook, withoutSeed } from './seed-groups.ts';

test('only settings that differ are compared, missing ones too', () => {
  const runs = [
    { learning_rate: 1e-3, epsilon: 1, rank: 8 },
    { learning_rate: 1e-4, epsilon: 1 },
  ];
  expect(differingSettings(runs)).toEqual([
    { name: 'learning_rate', values: ['0.001', '0.0001'] },
    { name: 'rank', values: ['8', '–'] },
  ]);
  expect(differingSettings([runs[0]!])).toEqual([]);
});

test.each([
  ['rate-0.1-seed-3', 'rate-0.1'],
  ['rate_0.1_seed12', 'rate_0.1'],
  ['seed=4', 'seed=4'],
  ['plain', 'plain'],
])('%s without its seed is %s', (name, group) => expect(withoutSeed(name)).toBe(group));

test('seeds become a mean with a band, at the places that any of them has', () => {
  const run = (name: string, x: number[], y: number[]) => ({ name, x, y });
  const [first, second] = comparedLines(
    [run('a-seed-1', [0, 1], [0, 1]), run('a-seed-2', [0, 1, 2], [1, 2, 3]), run('b', [0], [5])],
    true,
  );
  expect(first).toMatchObject({ name: 'a (2)', x: [0, 1, 2], y: [0.5, 1.5, 3] });
  expect(first!.band).toEqual({ low: [0, 1, 3], high: [1, 2, 3] });
  expect(second).toEqual({ ...lineLook(1), name: 'b', x: [0], y: [5] });
});

test('twelve lines look different', () => {
  const looks = Array.from({ length: 12 }, (_, index) => JSON.stringify(lineLook(index)));
  expect(new Set(looks).size).toBe(12);
});
