import type { ApiKeyObject } from '@trainyard/sdk';
import { expect, test } from 'vitest';

import { shownKeys } from './key-filter.ts';

const NOW = 1_000_000;
const key = (name: string, changes: Partial<ApiKeyObject> = {}) =>
  ({ name, scopes: ['inference'], revoked_at: null, expires_at: null, ...changes }) as ApiKeyObject;
const KEYS = [
  key('laptop'),
  key('Laptop of Al', { expires_at: 1001 }),
  key('old', { expires_at: 1000 }),
  key('lost', { revoked_at: 5, expires_at: 2000, scopes: ['training', 'admin'] }),
];

test.each([
  ['', ['laptop', 'Laptop of Al', 'old', 'lost']],
  ['state=valid', ['laptop', 'Laptop of Al']],
  ['state=expired', ['old']],
  ['state=revoked', ['lost']],
  ['scope=training', ['lost']],
  ['q=LAPTOP', ['laptop', 'Laptop of Al']],
  ['q=l&state=valid&scope=admin', []],
])('%j', (query, expected) => {
  expect(shownKeys(KEYS, new URLSearchParams(query), NOW).map(({ name }) => name)).toEqual(expected);
});
