import type { CheckpointState } from '@trainyard/store';
import { expect, test } from 'vitest';

import { keepReasons, type ModelFacts, stepsWithoutOptimizer } from './keep-reasons.ts';

const HOUR_MS = 3_600_000;
const NOW = 100 * HOUR_MS;

/** A live checkpoint, made an hour after its predecessor. */
const state = (step: number, fields: Partial<CheckpointState> = {}): CheckpointState => ({
  id: `c${step}`,
  step,
  directoryKey: step === 0 ? null : `checkpoints/${step}`,
  createdAt: step * HOUR_MS,
  keptAt: null,
  usedUntil: null,
  isReferenced: false,
  isOptimizerShared: false,
  sizeBytes: 1,
  optimizerBytes: 1,
  isOptimizerDropped: false,
  removedAt: null,
  ...fields,
});
const FACTS: ModelFacts = {
  now: NOW,
  bestStep: null,
  startStep: 0,
  liveFrom: null,
  references: new Set(),
  lag: 0,
};
const POLICY = { last: 2, best: true, every: null, optimizer: 1 };
const steps = (...fields: Partial<CheckpointState>[]) => fields.map((field, step) => state(step, field));
const ten = () => steps(...Array.from({ length: 10 }, () => ({})));

const kept = (states: readonly CheckpointState[], policy = {}, facts: Partial<ModelFacts> = {}) =>
  Object.fromEntries(
    [...keepReasons(states, { ...POLICY, ...policy }, { ...FACTS, ...facts })].filter(
      ([, reasons]) => reasons.length > 0,
    ),
  );

test('the policy keeps the newest, the best, every k-th and step 0', () => {
  expect(kept(ten())).toEqual({ 0: ['first', 'start'], 8: ['last'], 9: ['last'] });
  expect(kept(ten(), { last: 1, every: 4 }, { bestStep: 3 })).toEqual({
    0: ['every', 'first', 'start'],
    3: ['best'],
    4: ['every'],
    8: ['every'],
    9: ['last'],
  });
  expect(kept(ten(), { best: false }, { bestStep: 3 })).not.toHaveProperty('3');
  expect(Object.keys(kept(ten(), { last: 100 }))).toHaveLength(10);
});

test('the newest ones are counted among the remaining ones', () => {
  const left = [state(0), state(3), state(7), state(9)];
  expect(kept(left)).toEqual({ 0: ['first', 'start'], 7: ['last'], 9: ['last'] });
});

test('a mark, a request, a reference, a start and a use keep a step', () => {
  const states = steps(
    {},
    { keptAt: 1 },
    { usedUntil: NOW + 1 },
    { isReferenced: true },
    {},
    {},
    { usedUntil: NOW },
    {},
    {},
    {},
  );
  expect(kept(states, {}, { references: new Set([4]), startStep: 5 })).toEqual({
    0: ['first'],
    1: ['marked'],
    2: ['requested'],
    3: ['used'],
    4: ['reference'],
    5: ['start'],
    8: ['last'],
    9: ['last'],
  });
});

test('live jobs keep the steps of their submission, and those within their lag', () => {
  expect(Object.keys(kept(ten(), {}, { liveFrom: 5 })).map(Number)).toEqual([0, 4, 5, 6, 7, 8, 9]);
  expect(Object.keys(kept(ten(), {}, { lag: 4 })).map(Number)).toEqual([0, 5, 6, 7, 8, 9]);
  expect(Object.keys(kept(ten(), {}, { lag: 3, liveFrom: 7 })).map(Number)).toEqual([0, 4, 5, 6, 7, 8, 9]);
});

test('a step that was the newest a moment ago is kept: its requests are not on record yet', () => {
  const states = steps({}, {}, {}, { createdAt: NOW - 30_000 }, {});
  expect(kept(states, { last: 1 })).toEqual({ 0: ['first', 'start'], 2: ['new'], 4: ['last'] });
});

test('a step stays if its files stay for another', () => {
  const states = steps({}, {}, {}, {}, { directoryKey: 'checkpoints/3' });
  expect(kept(states, { last: 1 })).toEqual({ 0: ['first', 'start'], 3: ['shared'], 4: ['last'] });
  const ofBase = [state(0), state(1, { directoryKey: null }), state(2)];
  expect(kept(ofBase, { last: 1 })).toHaveProperty('1', ['shared']);
});

test('the optimizer state of the newest and of marked steps stays, also under another step', () => {
  const states = steps({}, { keptAt: 1 }, {}, { optimizerBytes: 0 }, {}, { directoryKey: 'checkpoints/4' });
  expect(stepsWithoutOptimizer(states, { ...POLICY, optimizer: 1 })).toEqual([0, 2]);
  expect(stepsWithoutOptimizer(states, { ...POLICY, optimizer: 9 })).toEqual([]);
});
