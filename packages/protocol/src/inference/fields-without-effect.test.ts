import { Check } from 'typebox/value';
import { describe, expect, test } from 'vitest';

import { ChatCompletionRequestSchema } from './chat-completion.ts';
import { FIELD_DESCRIPTIONS } from '../document/field-descriptions.ts';
import { FIELDS_WITHOUT_EFFECT } from './fields-without-effect.ts';
import { ignoredConfigKeys, INERT_CONFIG_FIELDS, TrainingConfigSchema } from '../training/training-config.ts';

test('each field without effect is in the schema, and described as such', () => {
  for (const name of FIELDS_WITHOUT_EFFECT) {
    expect(Object.keys(ChatCompletionRequestSchema.properties)).toContain(name);
    expect(FIELD_DESCRIPTIONS['ChatCompletionRequest']?.[name]).toMatch(/no effect/);
  }
});

describe('training settings', () => {
  test('the eleven keys that clients always send are accepted as they send them', () => {
    const sent = {
      advantage_balance: 0,
      epsilon: null,
      epsilon_high: null,
      importance_sampling_level: 'token',
      kimi_k2_tau: null,
      learning_rate: 5e-6,
      mask_prob_ratio: false,
      max_negative_advantage_importance_sampling_weight: null,
      ppo: false,
      precalculate_logprobs: false,
      scale_rewards: true,
    };
    expect(Check(TrainingConfigSchema, sent)).toBe(true);
    expect(ignoredConfigKeys(sent)).toEqual([]);
  });

  test('unknown keys are listed as ignored, and inert ones that ask for something', () => {
    expect(ignoredConfigKeys({ ppo: true, newer: 1, toString: 2 })).toEqual(['newer', 'toString']);
    expect(ignoredConfigKeys({ ...INERT_CONFIG_FIELDS })).toEqual([]);
    expect(ignoredConfigKeys({ plot_tensors: null, logprob_calculation_chunk_size: null })).toEqual([]);
    expect(ignoredConfigKeys({ plot_tensors: true, logprob_calculation_chunk_size: 8 })).toEqual([
      'plot_tensors',
      'logprob_calculation_chunk_size',
    ]);
  });
});
