import { type JobInput, type PlainSettings, SFT_EXPERIMENTAL_FIELDS, SFT_FIELDS } from '@trainyard/protocol/fields';
import { fit, plainSettings, refusal } from '../config/config-checks.ts';
import { TrainerError } from '../contract/errors.ts';
import type { OptimizerConfig } from '../optimizer/adamw.ts';
import { learningRateAt, type LearningRateSchedule } from '../optimizer/learning-rate.ts';

/** Both objects that a client sends. */
const FIELDS = { ...SFT_FIELDS, ...SFT_EXPERIMENTAL_FIELDS } as const;

/** `null` and `undefined` both mean absent; 0 and false are values. */
export type SftConfigInput = Omit<JobInput<typeof FIELDS>, 'learningRate'> & {
  readonly learningRate?: number | readonly number[] | 'auto' | null | undefined;
};

/**
 * Complete settings: `SFT_FIELDS` and `SFT_EXPERIMENTAL_FIELDS` have their meanings, limits and defaults. Made
 * only by `resolveSftConfig`, so inner code does not check them.
 */
export interface SftConfig extends PlainSettings<typeof FIELDS>, Omit<OptimizerConfig, 'learningRate'> {
  /** Conversations per gradient step; default 2, also for `auto`. */
  readonly batchSize: number;
  /** One rate for all gradient steps, or one each; `auto` (default): by `suitableLearningRate` of the model. */
  readonly learningRate: number | readonly number[] | 'auto';
  /** Tokens per conversation; longer ones are dropped. */
  readonly maxSequenceLength: number;
}

export type AssistantTurns = SftConfig['assistantTurns'];

/** Number alternative of both fields. */
const [BatchSize] = SFT_FIELDS.batch_size.form.anyOf;
const [LearningRate] = SFT_FIELDS.learning_rate.form.anyOf;
/** Metrics of each step are kept, and read again after a crash. */
const MAX_STEPS = 100_000;

/**
 * @param limits `maxSequenceLength`: tokens per conversation of the model
 * @throws {TrainerError} `trainer.config_invalid` with the wire field, its limit and the value
 */
export function resolveSftConfig(input: SftConfigInput, limits: { maxSequenceLength: number }): SftConfig {
  const batchSize = input.batchSize ?? 'auto';
  const learningRate = input.learningRate ?? 'auto';
  const isList = typeof learningRate === 'object';
  const plain = plainSettings(FIELDS, input);
  if (isList && (plain.learningRateSchedule !== 'constant' || plain.learningRateWarmupSteps > 0))
    throw refusal(
      'schedule',
      '`schedule` and `warmup_steps` need a single `learning_rate`; in a list each batch has its own rate',
    );
  if (learningRate === 'auto' && plain.learningRateMinimum > 0)
    throw refusal('min_learning_rate', '`min_learning_rate` requires a number as `learning_rate`, got auto');
  if (typeof learningRate === 'number')
    fit(
      'min_learning_rate',
      { ...SFT_EXPERIMENTAL_FIELDS.min_learning_rate.form, maximum: fit('learning_rate', LearningRate, learningRate) },
      plain.learningRateMinimum,
    );
  return Object.freeze({
    ...plain,
    batchSize: batchSize === 'auto' ? 2 : fit('batch_size', BatchSize, batchSize),
    learningRate: isList
      ? learningRate.map((rate, index) => fit(`learning_rate[${index}]`, LearningRate, rate))
      : learningRate,
    maxSequenceLength: limits.maxSequenceLength,
    adamBeta1: 0.9,
    adamBeta2: 0.99,
    adamEpsilon: 1e-8,
    weightDecay: 0,
    maxGradNorm: 1,
  });
}

/** Former names in stored rows. */
const FORMER_NAMES: Readonly<Record<string, keyof SftConfig>> = {
  schedule: 'learningRateSchedule',
  warmupSteps: 'learningRateWarmupSteps',
  minLearningRate: 'learningRateMinimum',
};

/** The job may be from before an update: settings since then have their defaults. */
export function storedSftConfig(stored: Readonly<Record<string, unknown>>): SftConfig {
  const entries = Object.entries(stored).map(([name, value]) => [FORMER_NAMES[name] ?? name, value] as const);
  return { ...plainSettings(FIELDS, {}), ...(Object.fromEntries(entries) as unknown as SftConfig) };
}

/** Number of gradient steps for `numExamples` trained conversations. */
export function numSftSteps(
  numExamples: number,
  { batchSize, epochs }: Pick<SftConfig, 'batchSize' | 'epochs'>,
): number {
  return Math.ceil(numExamples / batchSize) * epochs;
}

/**
 * Extra rates in a list are ignored.
 *
 * @returns [numSteps]
 * @throws {TrainerError} `trainer.config_invalid` if a list is shorter, or if a job has too many steps @see the
 * helper `create_lr_schedule` of the ART client, for the same numbers
 */
export function learningRates(
  config: Omit<SftConfig, 'learningRate'> & { readonly learningRate: number | readonly number[] },
  numSteps: number,
): number[] {
  const { learningRate } = config;
  if (numSteps > MAX_STEPS) {
    const { batchSize, epochs } = config;
    const message = `\`epochs\` ${epochs} and \`batch_size\` ${batchSize} make ${numSteps} gradient steps with this data; a job may take at most ${MAX_STEPS}`;
    throw new TrainerError('trainer.config_invalid', message);
  }
  if (typeof learningRate !== 'number') {
    if (learningRate.length >= numSteps) return learningRate.slice(0, numSteps);
    const message = `\`learning_rate\` must be one number, or one for each of the ${numSteps} batches, got ${learningRate.length}`;
    throw new TrainerError('trainer.config_invalid', message);
  }
  const schedule = scheduleOf({ ...config, learningRate }, numSteps);
  return Array.from({ length: numSteps }, (_, step) => learningRateAt(step, schedule));
}

/** The warm-up's last step has the full rate, and the job's last step the minimum. */
function scheduleOf(
  config: Pick<SftConfig, 'learningRateSchedule' | 'learningRateWarmupSteps' | 'learningRateMinimum'> & {
    readonly learningRate: number;
  },
  numSteps: number,
): LearningRateSchedule {
  return {
    shape: config.learningRateSchedule,
    peak: config.learningRate,
    initial: config.learningRateMinimum,
    numWarmupSteps: config.learningRateWarmupSteps,
    numWarmupParts: config.learningRateWarmupSteps,
    final: config.learningRateMinimum,
    finalStep: numSteps - 1,
  };
}
