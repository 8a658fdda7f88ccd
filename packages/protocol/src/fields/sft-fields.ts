import { anyOf, boolean, integer, listOf, literal, number, oneOf, single } from './form.ts';
import type { JobFieldTable } from './job-field.ts';

/** Limits beyond any use. */
const MAX_EPOCHS = 1000;
const MAX_BATCH_SIZE = 65_536;
const MAX_HELD_OUT_EXAMPLES = 10_000;

const LearningRate = single({ minimum: 0 });

/** `config` of a supervised job. */
export const SFT_FIELDS = {
  batch_size: {
    form: anyOf(integer({ minimum: 1, maximum: MAX_BATCH_SIZE }), literal('auto')),
    words: 'Number of consecutive conversations per gradient step. Default `auto`: 2.',
    name: 'batchSize',
  },
  learning_rate: {
    form: anyOf(LearningRate, listOf(LearningRate, { minItems: 1 }), literal('auto')),
    words:
      'One number, or a list with one number per batch. A list that is too short is refused; extra entries are listed as ignored. Default `auto`: chosen for this model and rank.',
    name: 'learningRate',
  },
  assistant_turns: {
    form: oneOf('all', 'last'),
    words: 'Train all assistant turns of a conversation, or only the last. Default `all`.',
    name: 'assistantTurns',
    default: 'all',
  },
} as const satisfies JobFieldTable;

/** `experimental_config` of a supervised job: extensions of this service. */
export const SFT_EXPERIMENTAL_FIELDS = {
  epochs: {
    form: integer({ minimum: 1, maximum: MAX_EPOCHS }),
    words: 'Number of passes over the data, always in the same order. Default 1.',
    name: 'epochs',
    default: 1,
  },
  schedule: {
    form: oneOf('constant', 'linear', 'cosine'),
    words: 'Schedule of the learning rate after the warm-up: constant, or falling to the minimum. Default `constant`.',
    name: 'learningRateSchedule',
    default: 'constant',
  },
  warmup_steps: {
    form: integer({ minimum: 0 }),
    words: 'Number of gradient steps in which the learning rate rises from the minimum. Default 0.',
    name: 'learningRateWarmupSteps',
    default: 0,
  },
  min_learning_rate: {
    form: single({ minimum: 0 }),
    words: 'Learning rate at the start of the warm-up and at the end of the schedule. Default 0.',
    name: 'learningRateMinimum',
    default: 0,
  },
  packing: {
    form: boolean(),
    words:
      'Pack the conversations of a batch into shared rows, so that equal prefixes are computed once. The gradient is the same. Default true.',
    name: 'packing',
    default: true,
  },
  held_out_fraction: {
    form: number({ exclusiveMinimum: 0, exclusiveMaximum: 1 }),
    words:
      'Share of the conversations that are not trained, but measured: at least one, at most `held_out_examples`. Not with `held_out_data_url`. Default: none.',
    name: 'heldOutFraction',
    default: null,
  },
  held_out_seed: {
    form: integer({ minimum: 0 }),
    words: 'Seed of the draw of `held_out_fraction`: the same seed and number of lines give the same lines. Default 0.',
    name: 'heldOutSeed',
    default: 0,
  },
  held_out_examples: {
    form: integer({ minimum: 1, maximum: MAX_HELD_OUT_EXAMPLES }),
    words:
      'Maximum number of held-out conversations: of `held_out_data_url` the first ones. Bounds the cost. Default 100.',
    name: 'heldOutExamples',
    default: 100,
  },
  held_out_every: {
    form: integer({ minimum: 1 }),
    words:
      'Gradient steps between two measurements of the held-out loss, which is also measured at the start and at the end. Default: a tenth of the gradient steps.',
    name: 'heldOutEvery',
    default: null,
  },
} as const satisfies JobFieldTable;
