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
      'Constant unless there is a warm-up or a schedule. 0 changes nothing. Default `auto`: what suits an adapter of this model and rank.',
    name: 'learningRate',
  },
  ppo: {
    form: boolean(),
    words: 'The clipped surrogate of PPO in place of CISPO. Default false.',
    name: 'ppo',
  },
  loss_fn: {
    form: oneOf('cispo', 'ppo', 'dppo'),
    words: 'The loss by its name; `cispo` together with `ppo: true` is a contradiction. Default: as `ppo` says.',
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
    words: 'Over what the importance ratio is taken. Default `token`.',
    name: 'importanceSamplingLevel',
    default: 'token',
    part: 'loss',
  },
  max_negative_advantage_importance_sampling_weight: {
    form: single({ minimum: 0 }),
    words: 'Largest importance ratio of any token. 0 and null: none.',
    name: 'maxNegativeAdvantageImportanceSamplingWeight',
    default: 0,
    part: 'loss',
  },
  mask_prob_ratio: {
    form: boolean(),
    words: 'Leave out tokens whose importance ratio is outside the clip. Default false.',
    name: 'maskProbRatio',
    default: false,
    part: 'loss',
  },
  kimi_k2_tau: {
    form: single({ minimum: 0 }),
    words: 'Pulls towards the sampling policy by so much. 0 and null: not at all.',
    name: 'kimiK2Tau',
    default: 0,
    part: 'loss',
  },
  vendor_k2_tau: {
    form: single({ minimum: 0 }),
    words: 'Another name of `kimi_k2_tau`.',
    name: 'vendorK2Tau',
  },
  precalculate_logprobs: {
    form: boolean(),
    words: "Compute the old log-probabilities anew with the trainer's own weights. Default false.",
    name: 'precalculateLogprobs',
    default: false,
  },
  advantage_balance: {
    form: single({ minimum: -1, maximum: 1 }),
    words: 'Positive values weaken negative advantages, negative ones the positive. Default 0.',
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
    words: 'False is as `scale_rewards: false`. Default true.',
    name: 'normalizeAdvantages',
    default: true,
  },
  allow_training_without_logprobs: {
    form: boolean(),
    words:
      'Train replies without log-probabilities too, at ratio 1: their `token_ids` where given, else their text. Default false.',
    name: 'allowTrainingWithoutLogprobs',
    default: false,
  },
  allow_training_with_unknown_sampling: {
    form: boolean(),
    words:
      'Train choices as if drawn plainly, at temperature 1, also where their record does not say enough of how they were drawn, or is gone. Default false: they are context, and counted in `refused_choices`.',
    name: 'allowTrainingWithUnknownSampling',
    default: false,
  },
  train_copies: {
    form: boolean(),
    words:
      'Train every copy of a choice that was sent more than once, as ART does. Default false: each sampled token is trained once.',
    name: 'trainCopies',
    default: false,
  },
  truncated_importance_sampling: {
    form: single({ exclusiveMinimum: 0 }),
    words:
      'Upper limit of the weight that corrects for the sampler. Needs `precalculate_logprobs`: without it there is nothing to correct, and the job says so. Null: no correction.',
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
    words: 'The step that is the reference. Default: step 0. Without a coefficient the distance is reported alone.',
    name: 'klPenaltyReferenceStep',
    default: null,
  },
  kl_penalty_step_lag: {
    form: integer({ minimum: 1 }),
    words: 'The reference is so many steps behind the step that the job trains on, at least step 0.',
    name: 'klPenaltyStepLag',
    default: null,
  },
  kl_penalty_source: {
    form: oneOf('current_learner', 'sample'),
    words: 'Which log-probabilities are compared with the reference. Default `current_learner`.',
    name: 'klPenaltySource',
    default: 'current_learner',
    part: 'loss',
  },
  kl_ref_adapter_path: {
    form: text(),
    words: "A path on the trainer's machine, which clients may not name.",
    name: 'klRefAdapterPath',
  },
  entropy_coef: {
    form: single({ minimum: 0 }),
    words: 'The loss gets so much less for each nat of entropy, which keeps the policy trying. Default 0.',
    name: 'entropyCoef',
    default: 0,
    part: 'loss',
  },
  loss_aggregation: {
    form: oneOf('normalized_trajectory', 'trajectory', 'token', 'constant'),
    words:
      'How the losses of tokens become one: by trajectory as in GRPO (`trajectory`), by token as in DAPO (`token`), over a constant length as in Dr. GRPO (`constant`), or by trajectory with advantages scaled over the job, as ART does (`normalized_trajectory`). Default `token`; with `step_per_row`, `normalized_trajectory`.',
    name: 'lossAggregation',
    default: 'token',
  },
  loss_aggregation_length: {
    form: integer({ minimum: 1 }),
    words: 'Tokens that `constant` divides the sum of each trajectory by. Default 1,024.',
    name: 'lossAggregationLength',
    default: 1024,
  },
  gradient_steps: {
    form: integer({ minimum: 1, maximum: MAX_GRADIENT_STEPS }),
    words:
      'Gradient steps of the job, whole groups each, at most one for each group. Default: one for every 16 trajectories, at most 4.',
    name: 'gradientSteps',
  },
  num_substeps: {
    form: integer({ minimum: 1, maximum: MAX_GRADIENT_STEPS }),
    words: 'Another name of `gradient_steps`.',
    name: 'numSubsteps',
  },
  step_per_row: {
    form: boolean(),
    words: 'Every packed row is a gradient step, whatever groups its histories are of, as ART does it. Default false.',
    name: 'stepPerRow',
    default: false,
  },
  packed_sequence_length: {
    form: integer({ minimum: 2 }),
    words:
      'Tokens of one row, which is what one pass computes. Default: as long as the longest history needs, in steps of 2,048.',
    name: 'packedSequenceLength',
    default: null,
  },
  num_trajectories_learning_rate_multiplier_power: {
    form: single(),
    words: 'Learning rate × (histories of the gradient step)^power. Default 0.',
    name: 'numTrajectoriesLearningRateMultiplierPower',
    default: 0,
  },
  learning_rate_schedule: {
    form: oneOf('constant', 'linear', 'cosine'),
    words:
      'How the learning rate falls after the warm-up, over the gradient steps of all jobs of the model. Default `constant`.',
    name: 'learningRateSchedule',
    default: 'constant',
  },
  learning_rate_warmup_steps: {
    form: integer({ minimum: 0 }),
    words: 'Gradient steps until the full learning rate. Default 0.',
    name: 'learningRateWarmupSteps',
    default: 0,
  },
  learning_rate_decay_steps: {
    form: integer({ minimum: 1 }),
    words: 'Gradient steps, the warm-up included, until the final learning rate.',
    name: 'learningRateDecaySteps',
    default: null,
  },
  learning_rate_final_fraction: {
    form: single({ minimum: 0, maximum: 1 }),
    words: 'The final learning rate as a part of `learning_rate`. Default 0.',
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
    words: 'Has no effect: memory is planned by the model. Listed as ignored.',
    inert: 1024,
  },
  scale_learning_rate_by_reward_std_dev: {
    form: boolean(),
    words: 'Has no effect, in no trainer any more. True is listed as ignored.',
    inert: false,
  },
  plot_tensors: {
    form: boolean(),
    words: 'Has no effect. True is listed as ignored.',
    inert: false,
  },
} as const satisfies JobFieldTable;
