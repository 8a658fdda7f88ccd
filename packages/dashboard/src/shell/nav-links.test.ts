import { expect, test } from 'vitest';

import { navLinksOf, scopeOfPage } from './nav-links.ts';

test.each([
  [['inference'], ['Chat']],
  [['training'], ['Models', 'Jobs', 'Usage']],
  [
    ['inference', 'training'],
    ['Models', 'Chat', 'Jobs', 'Usage'],
  ],
  [['admin'], ['Models', 'Chat', 'Jobs', 'Usage', 'Keys', 'System']],
])('a key with the scopes %j sees %j', (scopes, pages) => {
  expect(navLinksOf(scopes).map(({ text }) => text)).toEqual(pages);
});

test.each([
  ['/models', 'training'],
  ['/models/x/charts', 'training'],
  ['/rollouts/1.2.3', 'training'],
  ['/compare', 'training'],
  ['/chat', 'inference'],
  ['/keys', 'admin'],
  ['/modelsx', null],
  ['/nothing', null],
])('the page %s needs the scope %s', (path, scope) => expect(scopeOfPage(path)).toBe(scope));
