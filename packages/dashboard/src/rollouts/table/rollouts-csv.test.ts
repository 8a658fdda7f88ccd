import type { TrajectoryObject } from '@trainyard/sdk';
import { expect, test } from 'vitest';

import { toCsv } from './rollouts-csv.ts';

const rollout = (changes: Partial<TrajectoryObject>): TrajectoryObject => ({
  id: 'j.0.0',
  model_id: 'm',
  job_id: 'j',
  log_id: null,
  split: 'train',
  step: 1,
  group: 0,
  index: 0,
  reward: 0.5,
  outcome: null,
  advantage: null,
  prompt_digest: null,
  created_at: 1,
  question: null,
  excerpt: null,
  num_turns: 1,
  num_tokens: null,
  finish_reason: 'stop',
  metrics: {},
  ...changes,
});

test('a row per rollout and a column per own metric; texts are quoted and never formulas', () => {
  const csv = toCsv([
    rollout({ question: '=SUM(A1), "so"', metrics: { words: 3 } }),
    rollout({ id: 'j.0.1', excerpt: 'two\nlines', metrics: { '-x': 0 } }),
  ]);
  expect(csv).toBe(
    `id,split,step,job_id,log_id,group,index,reward,outcome,advantage,question,excerpt,num_turns,num_tokens,finish_reason,prompt_digest,created_at,metrics.-x,metrics.words
j.0.0,train,1,j,,0,0,0.5,,,"'=SUM(A1), ""so""",,1,,stop,,1,,3
j.0.1,train,1,j,,0,0,0.5,,,,"two
lines",1,,stop,,1,0,
`,
  );
});
