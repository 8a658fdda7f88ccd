import type { UsageGroupObject } from '@trainyard/sdk';
import { expect, test } from 'vitest';

import { filteredParts, isShown, projectOf, usageFilterOf } from './usage-filter.ts';

const NUMBERS = { num_requests: 1, prompt_tokens: 2, completion_tokens: 3 };
const GROUP: UsageGroupObject = { ...NUMBERS, project: null, key_id: 'k1', model: 'local/demo/Short:step3' };
const filter = (query: string) => usageFilterOf(new URLSearchParams(query));

test('usage without a project counts for that of its trained model', () => {
  expect(projectOf(GROUP)).toBe('demo');
  expect(projectOf({ ...GROUP, project: 'named' })).toBe('named');
  expect(projectOf({ ...GROUP, model: 'org/base' })).toBe('(none)');
});

test.each([
  ['', true],
  ['project=demo', true],
  ['project=other', false],
  ['key=k1&model=SHORT', true],
  ['key=k2', false],
  ['model=long', false],
])('%j is shown: %s', (query, expected) => expect(isShown(GROUP, filter(query))).toBe(expected));

test('a filter adds the parts that it needs, and nothing else', () => {
  expect(filteredParts(['day', 'kind'], filter(''))).toEqual(['day', 'kind']);
  expect(filteredParts(['day', 'kind'], filter('project=a'))).toEqual(['day', 'kind', 'model', 'project']);
  expect(filteredParts(['key', 'kind'], filter('key=a&model=b'))).toEqual(['key', 'kind', 'model']);
});
