import { expect, test } from 'vitest';

import { foundPlaces, guidePlaces, placesOf, placesOfId } from './go-to.ts';
import { navLinksOf } from './nav-links.ts';

const JOBS = [{ id: 'a1b2c3d4-0000', model_id: 'sweep-seed-1', status: 'failed' as const }];
const MODELS = ['short-answers', 'sweep-seed-1'].map((name) => ({ id: name, entity: 'local', project: 'demo', name }));

test('places are found by words of their text and kind, with at most twelve shown', () => {
  const places = placesOf(navLinksOf(['admin']), MODELS, JOBS);
  expect(foundPlaces(places, 'jobs').map(({ href }) => href)).toEqual(['/jobs']);
  expect(foundPlaces(places, 'seed chat').map(({ href }) => href)).toEqual(['/chat?model=local%2Fdemo%2Fsweep-seed-1']);
  expect(foundPlaces(places, 'SHORT charts')[0]?.href).toBe('/models/short-answers/charts');
  expect(foundPlaces(places, '').length).toBe(12);
  expect(foundPlaces(places, 'no such place')).toEqual([]);
});

test('a job is found by its short id, or by its state and model', () => {
  const places = placesOf(navLinksOf(['admin']), MODELS, JOBS);
  for (const search of ['a1b2c3d4', 'failed seed-1', 'job sweep'])
    expect(foundPlaces(places, search)).toContainEqual({
      text: 'a1b2c3d4 failed demo/sweep-seed-1',
      kind: 'job',
      href: '/jobs/a1b2c3d4-0000',
    });
});

test('a pasted id leads to its rollout, or to its job and its model', () => {
  const id = 'e06bac33-3efd-45c0-bbc8-0a8dd7e08255';
  expect(placesOfId(` ${id} `).map(({ href }) => href)).toEqual([`/jobs/${id}`, `/models/${id}`]);
  expect(placesOfId(`${id}.0.11`).map(({ href }) => href)).toEqual([`/rollouts/${id}.0.11`]);
  for (const text of ['', 'e06bac33', `${id}.0`, 'seed chat']) expect(placesOfId(text)).toEqual([]);
});

test('a key of inference finds no pages of others', () => {
  const kinds = placesOf(navLinksOf(['inference']), [], []).map(({ text }) => text);
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
