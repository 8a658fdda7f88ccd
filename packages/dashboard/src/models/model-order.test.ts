import { expect, test } from 'vitest';

import { tagsOf } from '../components/lists/model-filter.ts';
import { orderedModels } from './model-order.ts';

const model = (name: string, reward: number | null, step: number | null = 1, project = 'demo') => ({
  project,
  name,
  base_model: 'HuggingFaceTB/SmolLM2-135M-Instruct',
  reward: reward === null ? null : { step: 0, value: reward },
  best: reward === null ? null : { step: 1, metric: 'train/reward', value: reward + 0.1 },
  latest_step: step,
  tags: name === 'seed-9' ? ['slow'] : name === 'Sweep' ? ['a b', 'slow'] : [],
  archived_at: name === 'old' ? 1 : null,
});
const MODELS = [
  model('seed-10', 0.5),
  model('old', 0.1),
  model('seed-9', null, null),
  model('Sweep', 0.9, 7, 'research'),
];
const names = (options: Partial<Parameters<typeof orderedModels>[1]>) =>
  orderedModels(MODELS, { order: '', ...options }).map(({ name }) => name);

test('models are found by all words of a search, in any part of their names', () => {
  expect(names({ search: 'SEED' })).toEqual(['seed-10', 'seed-9']);
  expect(names({ search: 'research smollm2' })).toEqual(['Sweep']);
  expect(names({ search: 'seed research' })).toEqual([]);
  expect(names({ project: 'research' })).toEqual(['Sweep']);
});

test('models are found by any of several tags, and archived ones only if they are wanted', () => {
  expect(names({ tags: ['slow'] })).toEqual(['seed-9', 'Sweep']);
  expect(names({ tags: ['a b', 'none'] })).toEqual(['Sweep']);
  expect(names({ search: 'slow demo' })).toEqual(['seed-9']);
  expect(names({ isArchived: true })).toEqual(['old']);
  expect(tagsOf(MODELS)).toEqual(['a b', 'slow']);
});

test('models are ordered by numbers in names and by value; unknown values come last', () => {
  expect(names({})).toEqual(['seed-10', 'seed-9', 'Sweep']);
  expect(names({ order: 'name' })).toEqual(['seed-9', 'seed-10', 'Sweep']);
  for (const order of ['reward', 'best', 'step']) {
    const shown = names({ order });
    expect([order, shown[0], shown.at(-1)]).toEqual([order, 'Sweep', 'seed-9']);
  }
});
