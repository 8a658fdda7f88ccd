import { anyOf, boolean, integer, literal, oneOf, single, text } from './form.ts';
import type { JobFieldTable } from './job-field.ts';

/** Limit beyond any use: a job has at most one per group. */
const MAX_GRADIENT_STEPS = 65_536;

/**
 * `experimental_config` of a training job. Fields without a default depend on further ones; the trainer
 * resolves them.
 */
export const TRAINING_FIELDS = {
  learning_rate: {
    form: anyOf(single({ minimum: 0 }), literal('auto')),
    words:
      'Constant unless there is a warm-up or a schedule. 0 leaves the weights unchanged. Default `auto`: chosen for this model and rank.',
    name: 'learningRate',
  },
  ppo: {
    form: boolean(),
    words: 'Use the clipped surrogate loss of PPO instead of CISPO. Default false.',
    name: 'ppo',
  },
  loss_fn: {
    form: oneOf('cispo', 'ppo', 'dppo'),
    words: 'Name of the loss. `cispo` conflicts with `ppo: true`. Default: set by `ppo`.',
    name: 'lossFn',
    resolvedName: 'lossFunction',
  },
  epsilon: {
    form: single({ minimum: 0 }),
    words: 'Lower bound of the loss: for PPO (0.2) and CISPO (1) the importance ratio is clipped at 1 - ε.',
    name: 'epsilon',
  },
  epsilon_high: {
    form: single({ minimum: 0 }),
    words: 'Upper bound of the loss: for PPO (ε) and CISPO (4) the importance ratio is clipped at 1 + ε.',
    name: 'epsilonHigh',
  },
  importance_sampling_level: {
    form: oneOf('token', 'sequence', 'average', 'geometric_average'),
    words: 'Unit over which the importance ratio is computed. Default `token`.',
    name: 'importanceSamplingLevel',
    default: 'token',
    part: 'loss',
  },
  max_negative_advantage_importance_sampling_weight: {
    form: single({ minimum: 0 }),
    words: 'Maximum importance ratio of a token. 0 and null: no limit.',
    name: 'maxNegativeAdvantageImportanceSamplingWeight',
    default: 0,
    part: 'loss',
  },
  mask_prob_ratio: {
    form: boolean(),
    words: 'Skip tokens whose importance ratio is outside the clipping range. Default false.',
    name: 'maskProbRatio',
    default: false,
    part: 'loss',
  },
  kimi_k2_tau: {
    form: single({ minimum: 0 }),
    words: 'Strength of the pull towards the sampling policy. 0 and null: none.',
    name: 'kimiK2Tau',
    default: 0,
    part: 'loss',
  },
  vendor_k2_tau: {
    form: single({ minimum: 0 }),
    words: 'Alias of `kimi_k2_tau`.',
    name: 'vendorK2Tau',
  },
  precalculate_logprobs: {
    form: boolean(),
    words: "Recompute the old log-probabilities with the trainer's weights. Default false.",
    name: 'precalculateLogprobs',
    default: false,
  },
  advantage_balance: {
    form: single({ minimum: -1, maximum: 1 }),
    words: 'Positive values weaken negative advantages; negative values weaken positive advantages. Default 0.',
    name: 'advantageBalance',
    default: 0,
  },
  scale_rewards: {
    form: boolean(),
    words: 'Divide advantages by the standard deviation of the group. Default true.',
    name: 'scaleRewards',
    default: true,
  },
  normalize_advantages: {
    form: boolean(),
    words: 'False means `scale_rewards: false`. Default true.',
    name: 'normalizeAdvantages',
    default: true,
  },
  allow_training_without_logprobs: {
    form: boolean(),
    words:
      'Also train replies without log-probabilities, at ratio 1: their `token_ids` if given, else their text. Default false.',
    name: 'allowTrainingWithoutLogprobs',
    default: false,
  },
  allow_training_with_unknown_sampling: {
    form: boolean(),
    words:
      'Also train choices whose sampling record is missing or incomplete, as if they were sampled at temperature 1. Default false: such choices are only context, and `refused_choices` counts them.',
    name: 'allowTrainingWithUnknownSampling',
    default: false,
  },
  train_copies: {
    form: boolean(),
    words:
      'Train every copy of a choice that was sent several times, as ART does. Default false: each sampled token is trained once.',
    name: 'trainCopies',
    default: false,
  },
  truncated_importance_sampling: {
    form: single({ exclusiveMinimum: 0 }),
    words:
      'Upper limit of the weight that corrects for the sampler. Requires `precalculate_logprobs`; without it there is nothing to correct, and the job has a warning. Null: no correction.',
    name: 'truncatedImportanceSampling',
    default: 0,
    part: 'loss',
  },
  kl_penalty_coef: {
    form: single({ minimum: 0 }),
    words: 'Weight of the distance to a reference in the advantages. Default 0.',
    name: 'klPenaltyCoef',
    default: 0,
    part: 'loss',
  },
  kl_penalty_reference_step: {
    form: integer({ minimum: 0 }),
    words: 'Step that is the reference. Default: step 0. Without a coefficient, the distance is only reported.',
    name: 'klPenaltyReferenceStep',
    default: null,
  },
  kl_penalty_step_lag: {
    form: integer({ minimum: 1 }),
    words: 'The reference is this many steps before the step that the job trains on, but not before step 0.',
    name: 'klPenaltyStepLag',
    default: null,
  },
  kl_penalty_source: {
    form: oneOf('current_learner', 'sample'),
    words: 'Log-probabilities to compare with the reference. Default `current_learner`.',
    name: 'klPenaltySource',
    default: 'current_learner',
    part: 'loss',
  },
  kl_ref_adapter_path: {
    form: text(),
    words: "Path on the trainer's machine. Refused: clients may not name paths.",
    name: 'klRefAdapterPath',
  },
  entropy_coef: {
    form: single({ minimum: 0 }),
    words: 'Bonus per nat of entropy, subtracted from the loss to keep the policy exploring. Default 0.',
    name: 'entropyCoef',
    default: 0,
    part: 'loss',
  },
  loss_aggregation: {
    form: oneOf('normalized_trajectory', 'trajectory', 'token', 'constant'),
    words:
      'How to combine the losses of tokens: by trajectory as in GRPO (`trajectory`), by token as in DAPO (`token`), over a constant length as in Dr. GRPO (`constant`), or by trajectory with advantages scaled over the job as in ART (`normalized_trajectory`). Default `token`; with `step_per_row`, `normalized_trajectory`.',
    name: 'lossAggregation',
    default: 'token',
  },
  loss_aggregation_length: {
    form: integer({ minimum: 1 }),
    words: 'Number of tokens by which `constant` divides the sum of each trajectory. Default 1,024.',
    name: 'lossAggregationLength',
    default: 1024,
  },
  gradient_steps: {
    form: integer({ minimum: 1, maximum: MAX_GRADIENT_STEPS }),
    words:
      'Number of gradient steps of the job. Each step takes whole groups, so there is at most one per group. Default: one per 16 trajectories, at most 4.',
    name: 'gradientSteps',
  },
  num_substeps: {
    form: integer({ minimum: 1, maximum: MAX_GRADIENT_STEPS }),
    words: 'Alias of `gradient_steps`.',
    name: 'numSubsteps',
  },
  step_per_row: {
    form: boolean(),
    words: 'Take one gradient step per packed row, regardless of groups, as ART does. Default false.',
    name: 'stepPerRow',
    default: false,
  },
  packed_sequence_length: {
    form: integer({ minimum: 2 }),
    words: 'Tokens per row; one pass computes one row. Default: enough for the longest history, in multiples of 2,048.',
    name: 'packedSequenceLength',
    default: null,
  },
  num_trajectories_learning_rate_multiplier_power: {
    form: single(),
    words: 'The learning rate is multiplied by (histories of the gradient step)^power. Default 0.',
    name: 'numTrajectoriesLearningRateMultiplierPower',
    default: 0,
  },
  learning_rate_schedule: {
    form: oneOf('constant', 'linear', 'cosine'),
    words:
      'Schedule of the learning rate after the warm-up, over the gradient steps of all jobs of the model. Default `constant`.',
    name: 'learningRateSchedule',
    default: 'constant',
  },
  learning_rate_warmup_steps: {
    form: integer({ minimum: 0 }),
    words: 'Number of gradient steps until the full learning rate. Default 0.',
    name: 'learningRateWarmupSteps',
    default: 0,
  },
  learning_rate_decay_steps: {
    form: integer({ minimum: 1 }),
    words: 'Number of gradient steps, including the warm-up, until the final learning rate.',
    name: 'learningRateDecaySteps',
    default: null,
  },
  learning_rate_final_fraction: {
    form: single({ minimum: 0, maximum: 1 }),
    words: 'Final learning rate as a fraction of `learning_rate`. Default 0.',
    name: 'learningRateFinalFraction',
    default: 0,
  },
  adam_beta1: {
    form: single({ minimum: 0, exclusiveMaximum: 1 }),
    words: 'AdamW: decay of the mean of gradients. Default 0.9.',
    name: 'adamBeta1',
    default: 0.9,
    part: 'optimizer',
  },
  adam_beta2: {
    form: single({ minimum: 0, exclusiveMaximum: 1 }),
    words: 'AdamW: decay of the mean of their squares. Default 0.99.',
    name: 'adamBeta2',
    default: 0.99,
    part: 'optimizer',
  },
  adam_epsilon: {
    form: single({ exclusiveMinimum: 0 }),
    words: 'AdamW: added to the root of that mean. Default 1e-8.',
    name: 'adamEpsilon',
    default: 1e-8,
    part: 'optimizer',
  },
  weight_decay: {
    form: single({ minimum: 0 }),
    words: 'AdamW: decoupled decay of the adapter, scaled by the learning rate. Default 0.1.',
    name: 'weightDecay',
    default: 0.1,
    part: 'optimizer',
  },
  max_grad_norm: {
    form: single({ exclusiveMinimum: 0 }),
    words: 'Gradients are clipped to this norm, over the whole adapter. Default 0.1.',
    name: 'maxGradNorm',
    default: 0.1,
    part: 'optimizer',
  },
  logprob_calculation_chunk_size: {
    form: integer({ minimum: 1 }),
    words: 'Has no effect: memory use follows from the model. Listed as ignored.',
    inert: 1024,
  },
  scale_learning_rate_by_reward_std_dev: {
    form: boolean(),
    words: 'Obsolete in all trainers and without effect. True is listed as ignored.',
    inert: false,
  },
  plot_tensors: {
    form: boolean(),
    words: 'Has no effect. True is listed as ignored.',
    inert: false,
  },
} as const satisfies JobFieldTable;
