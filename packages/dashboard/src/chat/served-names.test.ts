import { expect, test } from 'vitest';

import { offeredSteps, servedNames, splitName } from './served-names.ts';

test('names are grouped by model, with the newest step first', () => {
  const names = [
    'base/model',
    'me/demo/x',
    'me/demo/x:step0',
    'me/demo/x:step10',
    'me/demo/x:step2',
    'me/adapter',
    'me/demo/y:step0',
  ];
  expect(servedNames(names)).toEqual([
    { name: 'me/demo/y', steps: [0] },
    { name: 'me/demo/x', steps: [10, 2, 0] },
    { name: 'base/model', steps: [] },
    { name: 'me/adapter', steps: [] },
  ]);
});

test('a model with 700 steps offers the newest, the first and the chosen one', () => {
  const steps = Array.from({ length: 700 }, (_, index) => 699 - index);
  const offered = offeredSteps(steps, 350);
  expect(offered).toHaveLength(32);
  expect([offered[0], offered.at(-2), offered.at(-1)]).toEqual([699, 350, 0]);
  expect(splitName('me/demo/x:step350')).toEqual({ name: 'me/demo/x', step: 350 });
  expect(splitName('base/model')).toEqual({ name: 'base/model', step: null });
});
