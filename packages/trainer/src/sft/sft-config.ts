import { flag, oneOf, wholeWithin, within } from '../config/config-checks.ts';
import { TrainerError } from '../contract/errors.ts';
import type { OptimizerConfig } from '../optimizer/adamw.ts';
import { learningRateAt, type LearningRateSchedule, type ScheduleShape } from '../optimizer/learning-rate.ts';

/** Which assistant turns of a conversation are trained. */
export type AssistantTurns = 'all' | 'last';

/** The settings that a client may choose. `null` and `undefined` both mean absent; 0 and false are values. */
export type SftConfigInput = {
  readonly [
    Key in
      | 'epochs'
      | 'learningRateSchedule'
      | 'learningRateWarmupSteps'
      | 'learningRateMinimum'
      | 'assistantTurns'
      | 'packing'
  ]?: SftConfig[Key] | null | undefined;
} & {
  readonly batchSize?: number | 'auto' | null | undefined;
  readonly learningRate?: number | readonly number[] | null | undefined;
};

/** A supervised job's settings, complete. Made by `resolveSftConfig` alone, so inner code never checks them again. */
export interface SftConfig extends Omit<OptimizerConfig, 'learningRate'> {
  /** Conversations of one gradient step; default 2, which `auto` is too. */
  readonly batchSize: number;
  /** One for all gradient steps (default 5e-5), or one for each of them. */
  readonly learningRate: number | readonly number[];
  /** Passes over the data, always in its order; default 1. */
  readonly epochs: number;
  /** Default `'constant'`. */
  readonly learningRateSchedule: ScheduleShape;
  /** Gradient steps in which the learning rate rises to its value; default 0. */
  readonly learningRateWarmupSteps: number;
  /** Where warm-up begins and where the schedule ends; default 0. */
  readonly learningRateMinimum: number;
  /** Default `'all'`. */
  readonly assistantTurns: AssistantTurns;
  /** Whether conversations of a batch share rows, and so the computation of equal beginnings. Default true; the gradient is the same. */
  readonly packing: boolean;
  /** Longest conversation the model may see, tokens; longer ones are left out. */
  readonly maxSequenceLength: number;
}

/** More of either is a mistake. */
const MAX_EPOCHS = 1000;
const MAX_BATCH_SIZE = 65_536;
/** Gradient steps of a job. What each of them measured is kept, and read again after a crash. */
const MAX_STEPS = 100_000;

/**
 * Fills in the defaults of a supervised job.
 *
 * @param limits `maxSequenceLength`: tokens of the longest conversation that the model takes
 * @throws {TrainerError} `trainer.config_invalid`, naming the wire field, its limit and the value
 */
export function resolveSftConfig(input: SftConfigInput, limits: { maxSequenceLength: number }): SftConfig {
  const batchSize = input.batchSize ?? 'auto';
  const learningRate = input.learningRate ?? 5e-5;
  const isList = typeof learningRate !== 'number';
  const shape = oneOf('schedule', input.learningRateSchedule ?? 'constant', ['constant', 'linear', 'cosine']);
  const numWarmupSteps = wholeWithin('warmup_steps', input.learningRateWarmupSteps ?? 0, 0);
  if (isList && (shape !== 'constant' || numWarmupSteps > 0)) {
    const message = '`schedule` and `warmup_steps` shape one learning rate; with a list of them each batch has its own';
    throw new TrainerError('trainer.config_invalid', message);
  }
  return Object.freeze({
    batchSize: batchSize === 'auto' ? 2 : wholeWithin('batch_size', batchSize, 1, MAX_BATCH_SIZE),
    learningRate: isList
      ? learningRate.map((rate, index) => within(`learning_rate[${index}]`, rate, 0))
      : within('learning_rate', learningRate, 0),
    epochs: wholeWithin('epochs', input.epochs ?? 1, 1, MAX_EPOCHS),
    learningRateSchedule: shape,
    learningRateWarmupSteps: numWarmupSteps,
    learningRateMinimum: within(
      'min_learning_rate',
      input.learningRateMinimum ?? 0,
      0,
      isList ? Infinity : learningRate,
    ),
    assistantTurns: oneOf('assistant_turns', input.assistantTurns ?? 'all', ['all', 'last']),
    packing: flag('packing', input.packing ?? true),
    maxSequenceLength: limits.maxSequenceLength,
    adamBeta1: 0.9,
    adamBeta2: 0.99,
    adamEpsilon: 1e-8,
    weightDecay: 0,
    maxGradNorm: 1,
  });
}

/** Names of settings in rows that were stored before both kinds of jobs had the same. */
const FORMER_NAMES: Readonly<Record<string, keyof SftConfig>> = {
  schedule: 'learningRateSchedule',
  warmupSteps: 'learningRateWarmupSteps',
  minLearningRate: 'learningRateMinimum',
};

/** The settings of a job as a store has kept them, which may have waited there through an update. */
export function storedSftConfig(stored: Readonly<Record<string, unknown>>): SftConfig {
  const entries = Object.entries(stored).map(([name, value]) => [FORMER_NAMES[name] ?? name, value] as const);
  return Object.fromEntries(entries) as unknown as SftConfig;
}

/** Gradient steps that so many conversations make. */
export function numSftSteps(
  numExamples: number,
  { batchSize, epochs }: Pick<SftConfig, 'batchSize' | 'epochs'>,
): number {
  return Math.ceil(numExamples / batchSize) * epochs;
}

/**
 * Learning rate of each gradient step. What a list has beyond the last step is left over.
 *
 * @returns [numSteps]
 * @throws {TrainerError} `trainer.config_invalid` when a list is shorter, and when there are more steps than a job may take
 * @see the helper `create_lr_schedule` of the ART client, whose numbers these are
 */
export function learningRates(config: SftConfig, numSteps: number): number[] {
  const { learningRate } = config;
  if (numSteps > MAX_STEPS) {
    const { batchSize, epochs } = config;
    const message = `\`epochs\` ${epochs} and \`batch_size\` ${batchSize} make ${numSteps} gradient steps of this data; a job may take ${MAX_STEPS}`;
    throw new TrainerError('trainer.config_invalid', message);
  }
  if (typeof learningRate !== 'number') {
    if (learningRate.length >= numSteps) return learningRate.slice(0, numSteps);
    const message = `\`learning_rate\` must be one number, or at least one for each of the ${numSteps} batches, got ${learningRate.length}`;
    throw new TrainerError('trainer.config_invalid', message);
  }
  const schedule = scheduleOf({ ...config, learningRate }, numSteps);
  return Array.from({ length: numSteps }, (_, step) => learningRateAt(step, schedule));
}

/** The last step of the warm-up has the full rate, and the last step of the job the minimum. */
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
