import { anyOf, boolean, integer, listOf, literal, oneOf, single } from './form.ts';
import type { JobFieldTable } from './job-field.ts';

/** Limits beyond any use. */
const MAX_EPOCHS = 1000;
const MAX_BATCH_SIZE = 65_536;

const LearningRate = single({ minimum: 0 });

/** `config` of a supervised job. */
export const SFT_FIELDS = {
  batch_size: {
    form: anyOf(integer({ minimum: 1, maximum: MAX_BATCH_SIZE }), literal('auto')),
    words: 'Consecutive conversations of one gradient step. `auto` is the default, 2.',
    name: 'batchSize',
  },
  learning_rate: {
    form: anyOf(LearningRate, listOf(LearningRate, { minItems: 1 }), literal('auto')),
    words:
      'One number, or one for each batch: a list that is too short is refused, what it has too many is listed as ignored. Default `auto`: what suits an adapter of this model and rank.',
    name: 'learningRate',
  },
  assistant_turns: {
    form: oneOf('all', 'last'),
    words: 'Whether all assistant turns of a conversation are trained, or the last one. Default `all`.',
    name: 'assistantTurns',
    default: 'all',
  },
} as const satisfies JobFieldTable;

/** `experimental_config` of a supervised job: extensions of this service. */
export const SFT_EXPERIMENTAL_FIELDS = {
  epochs: {
    form: integer({ minimum: 1, maximum: MAX_EPOCHS }),
    words: 'Passes over the data, always in its order. Default 1.',
    name: 'epochs',
    default: 1,
  },
  schedule: {
    form: oneOf('constant', 'linear', 'cosine'),
    words: 'How the learning rate goes on after the warm-up: it stays or falls to the minimum. Default `constant`.',
    name: 'learningRateSchedule',
    default: 'constant',
  },
  warmup_steps: {
    form: integer({ minimum: 0 }),
    words: 'Gradient steps in which the learning rate rises from the minimum. Default 0.',
    name: 'learningRateWarmupSteps',
    default: 0,
  },
  min_learning_rate: {
    form: single({ minimum: 0 }),
    words: 'Where the warm-up begins and the schedule ends. Default 0.',
    name: 'learningRateMinimum',
    default: 0,
  },
  packing: {
    form: boolean(),
    words:
      'Compute the conversations of a batch in common rows; equal beginnings are then computed once. The gradient is the same. Default true.',
    name: 'packing',
    default: true,
  },
} as const satisfies JobFieldTable;
