import { expect, test } from 'vitest';

import { keyLabels, projectOf, usageFilterOf } from './usage-filter.ts';

test.each([
  ['', {}],
  ['project=demo', { project: 'demo' }],
  ['project=(none)&key=k1', { project: '', key: 'k1' }],
  ['model=%20Short%20&project=', { model: 'Short' }],
])('the address %j filters by %j', (query, expected) =>
  expect(usageFilterOf(new URLSearchParams(query))).toEqual(expected),
);

test('the project that a filter names is the one that rows show', () => {
  expect(projectOf({ project: 'demo' })).toBe('demo');
  expect(usageFilterOf(new URLSearchParams({ project: projectOf({ project: null }) }))).toEqual({ project: '' });
});

test('keys of one name are told apart by their id', () => {
  const keys = [
    { key_id: 'a1b2c3d4-e5', key_name: 'admin' },
    { key_id: 'f6a7b8c9-d0', key_name: 'admin' },
    { key_id: 'k3', key_name: 'guest' },
    { key_id: 'gone', key_name: null },
  ];
  expect([...keyLabels([...keys, keys[0]!]).values()]).toEqual([
    'admin (a1b2c3d4)',
    'admin (f6a7b8c9)',
    'guest',
    'gone',
  ]);
});
