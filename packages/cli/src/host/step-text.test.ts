import { expect, test } from 'vitest';

import { stepText } from './step-text.ts';

const STEP = {
  measured: { machine: '2 cores, Some Processor', isTrial: false },
  cores: 2,
  sampledPerSecond: 151.3,
  trainedPerSecond: 804,
  stepSeconds: 63.4,
  isExtrapolated: false,
};

test('the cost of a step is one line, with the source of the numbers', () => {
  expect(stepText(STEP)).toBe(
    'a step of 64 rollouts: about 63 s on 2 cores; 150 tokens/s sampled, 800 trained; from measurements (2 cores, Some Processor), see docs/benchmarks.md',
  );
});

test('a trial and an extrapolation are stated', () => {
  const measured = { ...STEP.measured, isTrial: true };
  const step = { ...STEP, measured, cores: 1, stepSeconds: 7300, isExtrapolated: true };
  expect(stepText(step)).toBe(
    'a step of 64 rollouts: about 2 h on 1 core; 150 tokens/s sampled, 800 trained; extrapolated from a trial on a busy machine (2 cores, Some Processor), see docs/benchmarks.md',
  );
  expect(stepText({ ...STEP, stepSeconds: 100 })).toContain('about 1.7 min on');
});
