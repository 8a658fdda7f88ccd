import { flag, oneOf, wholeWithin, within } from '../config/config-checks.ts';
import { TrainerError } from '../errors.ts';
import type { OptimizerConfig } from '../optimizer/adamw.ts';

/** How the learning rate goes on after the warm-up: it stays, or falls to the minimum along a line or half a cosine. */
export type SftSchedule = 'constant' | 'linear' | 'cosine';
/** Which assistant turns of a conversation are trained. */
export type AssistantTurns = 'all' | 'last';

/** What a client may ask for. `null` and `undefined` both mean absent; 0 and false are values. */
export type SftConfigInput = {
  readonly [Key in 'epochs' | 'schedule' | 'warmupSteps' | 'minLearningRate' | 'assistantTurns' | 'packing']?:
    | SftConfig[Key]
    | null
    | undefined;
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
  readonly schedule: SftSchedule;
  /** Gradient steps in which the learning rate rises to its value; default 0. */
  readonly warmupSteps: number;
  /** Where warm-up begins and where the schedule ends; default 0. */
  readonly minLearningRate: number;
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
  const schedule = oneOf('schedule', input.schedule ?? 'constant', ['constant', 'linear', 'cosine']);
  const warmupSteps = wholeWithin('warmup_steps', input.warmupSteps ?? 0, 0);
  if (isList && (schedule !== 'constant' || warmupSteps > 0)) {
    const message = '`schedule` and `warmup_steps` shape one learning rate; with a list of them each batch has its own';
    throw new TrainerError('trainer.config_invalid', message);
  }
  return Object.freeze({
    batchSize: batchSize === 'auto' ? 2 : wholeWithin('batch_size', batchSize, 1, MAX_BATCH_SIZE),
    learningRate: isList
      ? learningRate.map((rate, index) => within(`learning_rate[${index}]`, rate, 0))
      : within('learning_rate', learningRate, 0),
    epochs: wholeWithin('epochs', input.epochs ?? 1, 1, MAX_EPOCHS),
    schedule,
    warmupSteps,
    minLearningRate: within('min_learning_rate', input.minLearningRate ?? 0, 0, isList ? Infinity : learningRate),
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
  const { learningRate, schedule, warmupSteps, minLearningRate } = config;
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
  const range = learningRate - minLearningRate;
  const numDecaySteps = numSteps - warmupSteps;
  return Array.from({ length: numSteps }, (_, step) => {
    if (step < warmupSteps) return minLearningRate + range * ((step + 1) / warmupSteps);
    const progress = numDecaySteps > 1 ? (step - warmupSteps) / (numDecaySteps - 1) : 0;
    switch (schedule) {
      case 'constant':
        return learningRate;
      case 'linear':
        return learningRate - range * progress;
      case 'cosine':
        return minLearningRate + (range / 2) * (1 + Math.cos(Math.PI * progress));
      default:
        return schedule satisfies never;
    }
  });
}
