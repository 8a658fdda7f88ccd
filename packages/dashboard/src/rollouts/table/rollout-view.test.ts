import { expect, test } from 'vitest';

import { readView } from './rollout-view.ts';

const view = (query: string) => readView(new URLSearchParams(query));

test('the address holds filters, order, columns and search', () => {
  const read = view(
    'view=all&outcome=trained&min=0.25&max=1&step=3&split=val&job=j&group=2&ended=length&sort=num_tokens&order=asc&columns=reward,m.words',
  );
  expect(read.filter).toEqual({
    outcome: 'trained',
    min_reward: 0.25,
    max_reward: 1,
    step: 3,
    split: 'val',
    job_id: 'j',
    group: 2,
    finish_reason: 'length',
    sort: 'num_tokens',
    order: 'asc',
  });
  expect(read.active).toEqual(['outcome', 'reward', 'step', 'split', 'job', 'group', 'ended']);
  expect(read.columns).toEqual(['reward', 'm.words']);
});

test('a search is in order of arrival, and nothing else is the default', () => {
  expect(view('text=sea&sort=reward').filter).toEqual({ text: 'sea', order: 'desc' });
  expect(view('')).toMatchObject({ filter: { order: 'desc' }, active: [], sort: 'position', columns: null });
});

test.each(['step=-1', 'step=1.5', 'min=x', 'max=', 'group=1e99', 'sort=name', 'outcome='])(
  'a value that the service would refuse is left out: %s',
  (query) => expect(view(query).filter).toEqual({ order: 'desc' }),
);
