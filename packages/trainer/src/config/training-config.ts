import { type JobInput, type PlainSettings, TRAINING_FIELDS } from '@trainyard/protocol/fields';
import type { LossConfig } from '../objectives/loss-config.ts';
import { POLICY_OBJECTIVES } from '../objectives/policy-objectives.ts';
import type { LearningRateSchedule } from '../optimizer/learning-rate.ts';
import { fit, plainSettings, refusal } from './config-checks.ts';

/** `null` and `undefined` both mean absent; 0 and false are values. Contradictory settings are refused. */
export type TrainingConfigInput = JobInput<typeof TRAINING_FIELDS> & {
  readonly maxSequenceLength?: number | null | undefined;
};

/**
 * Complete settings: `TRAINING_FIELDS` has their meanings, limits and defaults. Made only by
 * `resolveTrainingConfig`, so inner code does not check them.
 */
export interface TrainingConfig extends PlainSettings<typeof TRAINING_FIELDS>, LossConfig {
  /** `auto`: by `suitableLearningRate`, once the model is known. */
  readonly learningRate: number | 'auto';
  /** At most the number of groups; null (default): see `numStepsFor`. */
  readonly gradientSteps: number | null;
  /** Tokens; default 32,768. The server lowers it to the base model's context length. */
  readonly maxSequenceLength: number;
}

export type ComputedConfig = TrainingConfig & { readonly learningRate: number };

export type LossAggregation = TrainingConfig['lossAggregation'];

const MAX_SEQUENCE_LENGTH = 32_768;

/** @throws {TrainerError} `trainer.config_invalid` with the wire field, its limit and the value */
export function resolveTrainingConfig(input: TrainingConfigInput & { readonly learningRate: number }): ComputedConfig;
export function resolveTrainingConfig(input: TrainingConfigInput): TrainingConfig;
export function resolveTrainingConfig(input: TrainingConfigInput): TrainingConfig {
  refuseContradictions(input);
  const { ppo, loss_fn: lossFn, epsilon: low, epsilon_high: high } = TRAINING_FIELDS;
  const lossFunction = fit(
    'loss_fn',
    lossFn.form,
    input.lossFn ?? (fit('ppo', ppo.form, input.ppo ?? false) ? 'ppo' : 'cispo'),
  );
  const { bounds } = POLICY_OBJECTIVES[lossFunction];
  const epsilon = fit('epsilon', low.form, input.epsilon ?? bounds.epsilon);
  if (input.klRefAdapterPath !== undefined && input.klRefAdapterPath !== null)
    throw refusal('kl_ref_adapter_path', '`kl_ref_adapter_path` is not accepted: use `kl_penalty_reference_step`');
  const maxSequenceLength = fit(
    'max_sequence_length',
    { type: 'integer', minimum: 2 },
    input.maxSequenceLength ?? MAX_SEQUENCE_LENGTH,
  );
  // Rows are parts of groups, so their steps allow only one aggregation.
  const ofRows = input.stepPerRow === true ? 'normalized_trajectory' : undefined;
  const plain = plainSettings(TRAINING_FIELDS, {
    ...input,
    kimiK2Tau: kimiK2TauOf(input),
    lossAggregation: input.lossAggregation ?? ofRows,
  });
  const { packedSequenceLength, learningRateDecaySteps, learningRateWarmupSteps } = plain;
  // Limits that depend on other settings.
  if (packedSequenceLength !== null)
    fit(
      'packed_sequence_length',
      { ...TRAINING_FIELDS.packed_sequence_length.form, maximum: maxSequenceLength },
      packedSequenceLength,
    );
  if (learningRateDecaySteps !== null)
    fit('learning_rate_decay_steps', { type: 'integer', minimum: 1 + learningRateWarmupSteps }, learningRateDecaySteps);
  return Object.freeze({
    ...plain,
    learningRate: learningRateOf(input),
    lossFunction,
    epsilon,
    epsilonHigh: fit('epsilon_high', high.form, input.epsilonHigh ?? bounds.epsilonHigh ?? epsilon),
    gradientSteps: gradientStepsOf(input),
    maxSequenceLength,
  });
}

function learningRateOf({ learningRate }: TrainingConfigInput): number | 'auto' {
  const [rate] = TRAINING_FIELDS.learning_rate.form.anyOf;
  const isGiven = learningRate !== undefined && learningRate !== null && learningRate !== 'auto';
  return isGiven ? fit('learning_rate', rate, learningRate) : 'auto';
}

function gradientStepsOf({ gradientSteps, numSubsteps }: TrainingConfigInput): number | null {
  return ofEitherName(['gradient_steps', gradientSteps], ['num_substeps', numSubsteps]);
}

function kimiK2TauOf({ kimiK2Tau, vendorK2Tau }: TrainingConfigInput): number | null {
  return ofEitherName(['kimi_k2_tau', kimiK2Tau], ['vendor_k2_tau', vendorK2Tau]);
}

type NumberField = 'gradient_steps' | 'num_substeps' | 'kimi_k2_tau' | 'vendor_k2_tau';
type NamedNumber = readonly [field: NumberField, value: number | null | undefined];

/** Null if neither name was given. @throws {TrainerError} if they differ */
function ofEitherName(named: NamedNumber, alias: NamedNumber): number | null {
  const read = ([field, value]: NamedNumber): number | null =>
    value === undefined || value === null ? null : fit(field, TRAINING_FIELDS[field].form, value);
  const [first, second] = [read(named), read(alias)];
  if (first === null || second === null || first === second) return first ?? second;
  throw refusal(
    alias[0],
    `\`${alias[0]}\` is another name of \`${named[0]}\`: got ${second} and ${first}, remove one of them`,
  );
}

/** Learning rates of the job, by the optimizer's total steps: a schedule spans jobs. */
export function scheduleOf(
  config: Pick<
    ComputedConfig,
    | 'learningRate'
    | 'learningRateSchedule'
    | 'learningRateWarmupSteps'
    | 'learningRateDecaySteps'
    | 'learningRateFinalFraction'
  >,
): LearningRateSchedule {
  const { learningRate, learningRateWarmupSteps } = config;
  return {
    shape: config.learningRateSchedule,
    peak: learningRate,
    initial: 0,
    numWarmupSteps: learningRateWarmupSteps,
    numWarmupParts: learningRateWarmupSteps + 1,
    final: learningRate * config.learningRateFinalFraction,
    finalStep: config.learningRateDecaySteps ?? Infinity,
  };
}

/** True for a term other than the rewards, so that equal rewards also train. */
export function hasRegularizer(config: Pick<TrainingConfig, 'klPenaltyCoef' | 'entropyCoef' | 'kimiK2Tau'>): boolean {
  return config.klPenaltyCoef > 0 || config.entropyCoef > 0 || config.kimiK2Tau > 0;
}

function refuseContradictions(input: TrainingConfigInput): void {
  const refuse = (field: string, message: string): never => {
    throw refusal(field, message);
  };
  const isGiven = (value: unknown): boolean => value !== undefined && value !== null;
  if (input.ppo === true && isGiven(input.lossFn) && input.lossFn !== 'ppo')
    refuse('loss_fn', `\`loss_fn\` is ${input.lossFn} and \`ppo\` is true: remove one of them`);
  if (isGiven(input.klPenaltyReferenceStep) && isGiven(input.klPenaltyStepLag))
    refuse(
      'kl_penalty_step_lag',
      '`kl_penalty_step_lag` and `kl_penalty_reference_step` both set the reference: remove one of them',
    );
  if (input.stepPerRow === true) {
    for (const [name, value] of [
      ['gradient_steps', input.gradientSteps],
      ['num_substeps', input.numSubsteps],
    ] as const)
      if (isGiven(value)) refuse(name, `\`${name}\` has no effect with \`step_per_row\`: remove one of them`);
    if ((input.lossAggregation ?? 'normalized_trajectory') !== 'normalized_trajectory')
      refuse(
        'loss_aggregation',
        `\`loss_aggregation\` must be normalized_trajectory with \`step_per_row\`, because its rows are parts of groups, got ${input.lossAggregation}`,
      );
  }
  if (isGiven(input.lossAggregationLength) && input.lossAggregation !== 'constant')
    refuse('loss_aggregation_length', '`loss_aggregation_length` requires `loss_aggregation` constant');
  const decays = (input.learningRateSchedule ?? 'constant') !== 'constant';
  if (decays && !isGiven(input.learningRateDecaySteps))
    refuse(
      'learning_rate_decay_steps',
      `\`learning_rate_decay_steps\` is missing: the schedule ${input.learningRateSchedule} needs a length`,
    );
  if (decays) return;
  for (const [name, value] of [
    ['learning_rate_decay_steps', input.learningRateDecaySteps],
    ['learning_rate_final_fraction', input.learningRateFinalFraction],
  ] as const)
    if (isGiven(value)) refuse(name, `\`${name}\` has no effect with a constant learning rate, got ${value}`);
}
