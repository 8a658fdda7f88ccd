import { Check } from 'typebox/value';
import { describe, expect, test } from 'vitest';

import { ChatCompletionRequestSchema } from './chat-completion.ts';
import {
  ignoredConfigKeys,
  IMPLEMENTED_CONFIG_FIELDS,
  TrainingConfigSchema,
  UNIMPLEMENTED_CONFIG_FIELDS,
  unsupportedConfigField,
} from './training-config.ts';
import { FIELD_DESCRIPTIONS } from './field-descriptions.ts';
import { FIELDS_WITHOUT_EFFECT, removedField } from './fields-without-effect.ts';

test('each field without effect is in the schema, and described as such', () => {
  for (const name of FIELDS_WITHOUT_EFFECT) {
    expect(Object.keys(ChatCompletionRequestSchema.properties)).toContain(name);
    expect(FIELD_DESCRIPTIONS['ChatCompletionRequest']?.[name]).toMatch(/no effect/);
  }
});

test('removed guided_* fields are refused unless they ask for nothing; unknown ones pass', () => {
  expect(removedField({ guided_regex: 'a' })).toBe('guided_regex');
  expect(removedField({ guided_json: { type: 'object' } })).toBe('guided_json');
  expect(removedField({ guided_regex: null, guided_json: {}, guided_choice: [], foo: 1, constructor: 1 })).toBeNull();
});

describe('training settings', () => {
  test('each key of the schema is implemented or refused, none both', () => {
    const split = [...IMPLEMENTED_CONFIG_FIELDS, ...Object.keys(UNIMPLEMENTED_CONFIG_FIELDS)];
    expect(split.toSorted()).toEqual(Object.keys(TrainingConfigSchema.properties).toSorted());
  });

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
    expect([unsupportedConfigField(sent), ignoredConfigKeys(sent)]).toEqual([null, []]);
  });

  test('defaults of refused fields pass, other values do not; unknown keys are listed', () => {
    expect(unsupportedConfigField({ ...UNIMPLEMENTED_CONFIG_FIELDS })).toBeNull();
    expect(unsupportedConfigField({ plot_tensors: true })).toBe('plot_tensors');
    expect(ignoredConfigKeys({ ppo: true, newer: 1, toString: 2 })).toEqual(['newer', 'toString']);
  });
});
