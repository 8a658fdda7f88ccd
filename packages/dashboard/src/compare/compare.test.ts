import { expect, test } from 'vitest';

import { differingSettings } from './compared-settings.ts';
import { comparedLines, groupsBy, lineLook, withoutSeed } from './seed-groups.ts';

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
  const run = (name: string, x: number[], y: number[]) => ({ name, tags: [], x, y });
  const [first, second] = comparedLines(
    [run('a-seed-1', [0, 1], [0, 1]), run('a-seed-2', [0, 1, 2], [1, 2, 3]), run('b', [0], [5])],
    groupsBy('seed', []),
  );
  expect(first).toMatchObject({ name: 'a (2)', x: [0, 1, 2], y: [0.5, 1.5, 3] });
  expect(first!.band).toEqual({ low: [0, 1, 3], high: [1, 2, 3] });
  expect(second).toEqual({ ...lineLook(1), name: 'b', x: [0], y: [5] });
});

test('two sweeps of three seeds become two lines by their tags', () => {
  const run = (name: string, tags: string[], value: number) => ({ name, tags, x: [0], y: [value] });
  const runs = [
    run('a1', ['old', 'one'], 1),
    run('a2', ['one'], 2),
    run('a3', ['one'], 6),
    run('b1', ['two'], 4),
    run('b2', ['two'], 5),
    run('b3', ['two', 'one'], 6),
    run('c', [], 9),
  ];
  const lines = comparedLines(runs.slice(0, 6), groupsBy('tag', ['one', 'two']));
  expect(lines.map(({ name, y, band }) => [name, y, band])).toEqual([
    ['one (4)', [3.75], { low: [1], high: [6] }],
    ['two (3)', [5], { low: [4], high: [6] }],
  ]);
  expect(comparedLines(runs, groupsBy('tag', [])).map(({ name }) => name)).toEqual(['a1', 'one (4)', 'two (3)', 'c']);
  expect(comparedLines(runs, groupsBy('run', []))).toHaveLength(7);
});

test('twelve lines look different', () => {
  const looks = Array.from({ length: 12 }, (_, index) => JSON.stringify(lineLook(index)));
  expect(new Set(looks).size).toBe(12);
});
