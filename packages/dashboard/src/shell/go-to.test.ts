import { expect, test } from 'vitest';

import { foundPlaces, guidePlaces, placesOf } from './go-to.ts';
import { navLinksOf } from './nav-links.ts';

const MODELS = ['short-answers', 'sweep-seed-1'].map((name) => ({ id: name, entity: 'local', project: 'demo', name }));

test('places are found by words of their text and kind, with at most twelve shown', () => {
  const places = placesOf(navLinksOf(['admin']), MODELS);
  expect(foundPlaces(places, 'jobs').map(({ href }) => href)).toEqual(['/jobs']);
  expect(foundPlaces(places, 'seed chat').map(({ href }) => href)).toEqual(['/chat?model=local%2Fdemo%2Fsweep-seed-1']);
  expect(foundPlaces(places, 'SHORT charts')[0]?.href).toBe('/models/short-answers/charts');
  expect(foundPlaces(places, '').length).toBe(12);
  expect(foundPlaces(places, 'no such place')).toEqual([]);
});

test('a key of inference finds no pages of others', () => {
  const kinds = placesOf(navLinksOf(['inference']), []).map(({ text }) => text);
  expect(kinds).toEqual(['Chat', 'Guides', 'API reference', 'OpenAPI document']);
});

test('at most six parts of guides are places, with their heading', () => {
  const hit = { title: 'Tools', heading: 'Set up', href: '/guides/tools#set-up' };
  expect(guidePlaces([hit, { ...hit, heading: null }])).toEqual([
    { text: 'Tools › Set up', kind: 'guide', href: '/guides/tools#set-up' },
    { text: 'Tools', kind: 'guide', href: '/guides/tools#set-up' },
  ]);
  expect(guidePlaces(Array.from({ length: 9 }, () => hit))).toHaveLength(6);
});
