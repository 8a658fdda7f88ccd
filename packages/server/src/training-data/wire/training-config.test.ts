import {
  INERT_CONFIG_FIELDS,
  type JobFieldRow,
  SFT_EXPERIMENTAL_FIELDS,
  SFT_FIELDS,
  TRAINING_FIELDS,
  TrainingConfigSchema,
} from '@trainyard/protocol';
import { LOSS_FUNCTIONS, resolveSftConfig, resolveTrainingConfig } from '@trainyard/trainer';
import { expect, expectTypeOf, it } from 'vitest';

import { RequestError } from '../../seams/faults/request-error.ts';
import { readSftConfig } from './sft-config.ts';
import { configFault, readJobConfig, toWireConfig } from './training-config.ts';

/** A non-default value of each field, with the fields it requires. */
const OTHER_VALUES: Readonly<Record<string, object>> = {
  learning_rate: { learning_rate: 1e-3 },
  ppo: { ppo: true },
  loss_fn: { loss_fn: 'ppo' },
  epsilon: { epsilon: 0.3 },
  epsilon_high: { epsilon_high: 0.4 },
  importance_sampling_level: { importance_sampling_level: 'sequence' },
  max_negative_advantage_importance_sampling_weight: { max_negative_advantage_importance_sampling_weight: 3 },
  mask_prob_ratio: { mask_prob_ratio: true },
  kimi_k2_tau: { kimi_k2_tau: 0.1 },
  vendor_k2_tau: { vendor_k2_tau: 0.1 },
  precalculate_logprobs: { precalculate_logprobs: true },
  advantage_balance: { advantage_balance: 0.5 },
  scale_rewards: { scale_rewards: false },
  normalize_advantages: { normalize_advantages: false },
  allow_training_without_logprobs: { allow_training_without_logprobs: true },
  allow_training_with_unknown_sampling: { allow_training_with_unknown_sampling: true },
  train_copies: { train_copies: true },
  truncated_importance_sampling: { truncated_importance_sampling: 2 },
  kl_penalty_coef: { kl_penalty_coef: 0.1 },
  kl_penalty_reference_step: { kl_penalty_reference_step: 1 },
  kl_penalty_step_lag: { kl_penalty_step_lag: 1 },
  kl_penalty_source: { kl_penalty_source: 'sample' },
  entropy_coef: { entropy_coef: 0.1 },
  loss_aggregation: { loss_aggregation: 'trajectory' },
  loss_aggregation_length: { loss_aggregation: 'constant', loss_aggregation_length: 64 },
  gradient_steps: { gradient_steps: 3 },
  num_substeps: { num_substeps: 3 },
  step_per_row: { step_per_row: true },
  packed_sequence_length: { packed_sequence_length: 64 },
  num_trajectories_learning_rate_multiplier_power: { num_trajectories_learning_rate_multiplier_power: 0.5 },
  learning_rate_schedule: { learning_rate_schedule: 'linear', learning_rate_decay_steps: 9 },
  learning_rate_warmup_steps: { learning_rate_warmup_steps: 4 },
  learning_rate_decay_steps: { learning_rate_schedule: 'cosine', learning_rate_decay_steps: 8 },
  learning_rate_final_fraction: {
    learning_rate_schedule: 'linear',
    learning_rate_decay_steps: 9,
    learning_rate_final_fraction: 0.1,
  },
  adam_beta1: { adam_beta1: 0.8 },
  adam_beta2: { adam_beta2: 0.8 },
  adam_epsilon: { adam_epsilon: 1e-3 },
  weight_decay: { weight_decay: 0 },
  max_grad_norm: { max_grad_norm: 2 },
};

const fields = Object.keys(TrainingConfigSchema.properties);
const acting = fields.filter((field) => !Object.hasOwn(INERT_CONFIG_FIELDS, field) && field !== 'kl_ref_adapter_path');

it.each(acting)('%s is honoured and not listed as ignored', (field) => {
  const sent = OTHER_VALUES[field];
  expect(sent, `a value for ${field} in this test`).toBeDefined();
  const { [field]: value, ...company } = sent as Record<string, unknown>;
  const withIt = readJobConfig(sent, 4096);
  const isOptional = field !== 'learning_rate_decay_steps' && field !== 'learning_rate_schedule';
  const without = readJobConfig(isOptional ? company : {}, 4096);
  expect(value).toBeDefined();
  expect(withIt.resolved).not.toEqual(without.resolved);
  expect(withIt.ignoredKeys).toEqual([]);
});

it('rows are as long as the base model allows, and 32,768 tokens at most', () => {
  expect(readJobConfig({}, 4096).resolved.maxSequenceLength).toBe(4096);
  expect(readJobConfig(null, 131_072).resolved.maxSequenceLength).toBe(32_768);
});

it('settings that the trainer refuses are the fault of the request', () => {
  const read = () => readJobConfig({ adam_beta1: 2 }, 4096);
  expect(read).toThrow(RequestError);
  expect(read).toThrow(expect.objectContaining({ code: 'request.invalid', param: 'experimental_config.adam_beta1' }));
});

const real = Object.entries(TRAINING_FIELDS).flatMap(([field, { form }]) => (form.type === 'number' ? [field] : []));

it.each(real)('%s is refused beyond single precision', (field) => {
  for (const value of [1e39, -1e39, Number.MAX_VALUE])
    expect(() => readJobConfig({ ...OTHER_VALUES[field], [field]: value }, 4096)).toThrow(
      expect.objectContaining({
        code: 'request.invalid',
        param: `experimental_config.${field}`,
        message: expect.stringMatching(
          new RegExp(`\`${field}\` must be a finite number .*, got ${String(value).replace('+', '\\+')}`),
        ) as string,
      }),
    );
});

it('a refusal names the setting, or all of them if none is at fault', () => {
  const locOf = (field: string | null) => configFault(field, 'no').items?.map(({ loc }) => loc);
  expect(locOf('epsilon')).toEqual([['body', 'experimental_config', 'epsilon']]);
  expect(locOf(null)).toEqual([['body', 'experimental_config']]);
});

it('every loss of the trainer has its name on the wire', () => {
  const { loss_fn: lossFn } = TrainingConfigSchema.properties;
  expect(JSON.stringify(lossFn)).toContain(JSON.stringify(LOSS_FUNCTIONS));
  for (const name of LOSS_FUNCTIONS)
    expect(readJobConfig({ loss_fn: name }, 4096).resolved).toMatchObject({ lossFunction: name });
});

it('every setting of the trainer has a name on the wire, and is shown under it', () => {
  const named = new Set(
    Object.values<JobFieldRow>(TRAINING_FIELDS).map(({ name, resolvedName = name }) => resolvedName),
  );
  const settings = Object.keys(resolveTrainingConfig({}));
  const reached = settings.filter((name) => named.has(name));
  expect(settings.filter((name) => !reached.includes(name))).toEqual(['maxSequenceLength']);
  const shown = Object.keys(toWireConfig(resolveTrainingConfig({})));
  expect(shown.filter((name) => !fields.includes(name))).toEqual(['max_sequence_length']);
});

it('every field either has a name in the trainer or is declared inert', () => {
  for (const [field, row] of Object.entries<JobFieldRow>(TRAINING_FIELDS))
    expect(Object.hasOwn(row, 'name'), field).toBe(!Object.hasOwn(row, 'inert'));
  expect(Object.keys(INERT_CONFIG_FIELDS)).toHaveLength(3);
  const { learning_rate: named, plot_tensors: inert } = TRAINING_FIELDS;
  const { name, ...forgotten } = named;
  expect(name).toBe('learningRate');
  // @ts-expect-error neither named nor inert
  const neither: JobFieldRow = forgotten;
  // @ts-expect-error both
  const both: JobFieldRow = { ...inert, name: 'plotTensors' };
  expect([neither, both]).toHaveLength(2);
});

it('a resolved setting has the type of its field', () => {
  const { learningRate, gradientSteps, klPenaltyStepLag, klPenaltySource } = resolveTrainingConfig({});
  expectTypeOf(learningRate).toEqualTypeOf<number | 'auto'>();
  expectTypeOf(gradientSteps).toEqualTypeOf<number | null>();
  expectTypeOf(klPenaltyStepLag).toEqualTypeOf<number | null>();
  expectTypeOf(klPenaltySource).toEqualTypeOf<'current_learner' | 'sample'>();
});

it('so have those of supervised jobs', () => {
  const { resolved } = readSftConfig(
    {
      config: { batch_size: 3, learning_rate: 1e-3, assistant_turns: 'last' },
      experimental_config: {
        epochs: 2,
        schedule: 'linear',
        warmup_steps: 4,
        min_learning_rate: 1e-4,
        packing: false,
        held_out_fraction: 0.1,
        held_out_seed: 3,
        held_out_examples: 7,
        held_out_every: 2,
      },
    },
    4096,
  );
  const defaults: Readonly<Record<string, unknown>> = { ...resolveSftConfig({}, { maxSequenceLength: 4096 }) };
  const same = Object.entries(resolved).filter(([name, value]) => defaults[name] === value);
  const rows: JobFieldRow[] = Object.values({ ...SFT_FIELDS, ...SFT_EXPERIMENTAL_FIELDS });
  const reached = rows.map(({ name }) => name);
  expect(same.map(([name]) => name).filter((name) => reached.some((other) => other === name))).toEqual([]);
});
