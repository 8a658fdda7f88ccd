import { expect, test } from 'vitest';

import { StepTable } from '../../examples/demo/step-table.ts';

const ROW = {
  reward: 0.25,
  metrics: [],
  numTokens: 80,
  seconds: { rollout: 2, training: 2 },
  numWarnings: 1,
  numDropped: 3,
};

/** A table with a recording stream, and a clock that only the test moves. */
function table(isTTY: boolean) {
  const written: string[] = [];
  let nowMs = 0;
  const stream = { isTTY, write: (text: string) => written.push(text.replace('\r\u001b[2K', '')) };
  return { table: new StepTable(4, { stream, now: () => nowMs }), written, pass: (ms: number) => (nowMs += ms) };
}

test('on a terminal every rollout updates the line, with its rate and the time left', () => {
  const { table: steps, written, pass } = table(true);
  steps.beginSampling(0, 8);
  for (let rollout = 0; rollout < 8; rollout++) {
    pass(250);
    steps.rolloutDone(0, 8, 10);
  }
  expect(written[1]).toContain('] step 1 of 4: 0 of 8 rollouts');
  expect(written[2]).toContain('] step 1 of 4: 1 of 8 rollouts, 40 tok/s');
  expect(written[9]).toContain('] step 1 of 4: 8 of 8 rollouts, 40 tok/s');
  expect(written[9]).not.toContain('left');
  expect(written[9]!.split('█').length).toBeGreaterThan(written[1]!.split('█').length);
  pass(2000);
  steps.training(0, 0.25, 1);
  expect(written.at(-1)).toContain('step 1 of 4: training on reward 0.250, 1 gradient step');
  steps.row({ step: 0, ...ROW });
  steps.beginSampling(1, 8);
  expect(written.at(-1)).toMatch(/step 2 of 4: 0 of 8 rollouts, about 14 s left$/);
  expect(written.at(-2)).toMatch(/ 3 +1\n$/);
});

test('the bar is full only after the last checkpoint was sampled, and counts that time too', () => {
  const { table: steps, written, pass } = table(true);
  for (let step = 0; step < 4; step++) {
    steps.beginSampling(step, 8);
    pass(4000);
    steps.row({ step, ...ROW });
  }
  steps.beginSampling(4, 8);
  expect(written.at(-1)).toMatch(/░\] last checkpoint: 0 of 8 rollouts, about 2 s left$/);
  for (let rollout = 0; rollout < 4; rollout++) steps.rolloutDone(4, 8, 10);
  expect(written.at(-1)).toMatch(/░\] last checkpoint: 4 of 8 rollouts.*, about 1 s left$/);
  for (let rollout = 4; rollout < 8; rollout++) steps.rolloutDone(4, 8, 10);
  expect(written.at(-1)).toMatch(/█\] last checkpoint: 8 of 8 rollouts.*, about 0 s left$/);
});

test('a warning is printed once for all jobs', () => {
  const { table: steps, written } = table(true);
  for (let job = 0; job < 3; job++) steps.warn({ code: 'entropy_low', message: 'the entropy is low' });
  expect(written.filter((line) => line.includes('the entropy is low'))).toEqual(['warning: the entropy is low\n']);
});

test('without a terminal a line is written at most every 15 seconds', () => {
  const { table: steps, written, pass } = table(false);
  steps.beginSampling(0, 64);
  for (let rollout = 0; rollout < 64; rollout++) {
    pass(500);
    steps.rolloutDone(0, 64, 10);
  }
  expect(written.slice(1)).toEqual([
    'step 1 of 4: 30 of 64 rollouts, 20 tok/s\n',
    'step 1 of 4: 60 of 64 rollouts, 20 tok/s\n',
  ]);
});
