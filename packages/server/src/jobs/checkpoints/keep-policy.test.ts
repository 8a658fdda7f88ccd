import { expect, test } from 'vitest';

import { DEFAULT_KEEP_POLICY, isKeepPolicy, readKeepPolicy } from './keep-policy.ts';

test('a policy has its parts in any order, and defaults for missing ones', () => {
  expect(readKeepPolicy(DEFAULT_KEEP_POLICY)).toEqual({ last: 20, best: true, every: 10, optimizer: 2 });
  expect(readKeepPolicy('every=5,optimizer=7')).toEqual({ last: 1, best: false, every: 5, optimizer: 7 });
  expect(readKeepPolicy('best')).toEqual({ last: 1, best: true, every: null, optimizer: 2 });
  expect(readKeepPolicy('all')).toBeNull();
});

test.each([
  '',
  'none',
  'last',
  'last=',
  'last=0',
  'last=-1',
  'last=1.5',
  'last=1e3',
  'last=01',
  'last=9999999',
  'best=1',
  'last=3, best',
  'last=3,last=4',
  'best,',
  'all,best',
  'LAST=3',
])('%j is no policy', (text) => {
  expect(isKeepPolicy(text)).toBe(false);
});
