import type { TrainingConfig } from '../config/training-config.ts';

export type LearningRateSchedule = 'constant' | 'linear' | 'cosine';

type ScheduleConfig = Pick<
  TrainingConfig,
  | 'learningRate'
  | 'learningRateSchedule'
  | 'learningRateWarmupSteps'
  | 'learningRateDecaySteps'
  | 'learningRateFinalFraction'
  | 'numTrajectoriesLearningRateMultiplierPower'
>;

/**
 * Learning rate of the next gradient step.
 *
 * With step t counted from 0, warm-up w, decay d and final fraction f, the factor is (t + 1) / (w + 1) for t < w, and after that, over
 * p = min((t - w) / (d - w), 1): `linear` 1 - (1 - f) · p, `cosine` f + (1 - f) · (1 + cos πp) / 2, `constant` 1. A row of n histories
 * multiplies by n^power besides.
 *
 * @param numSteps Steps that the optimizer has taken so far; they go on from job to job, so a schedule spans jobs.
 * @see cosine: Loshchilov & Hutter, SGDR, arXiv 1608.03983, equation 5 without restarts
 */
export function learningRateAt(numSteps: number, numHistories: number, config: ScheduleConfig): number {
  const perHistory = numHistories ** config.numTrajectoriesLearningRateMultiplierPower;
  return config.learningRate * scheduleFactor(numSteps, config) * perHistory;
}

function scheduleFactor(numSteps: number, config: ScheduleConfig): number {
  const { learningRateWarmupSteps: warmup, learningRateDecaySteps: end, learningRateFinalFraction: final } = config;
  if (numSteps < warmup) return (numSteps + 1) / (warmup + 1);
  if (end === null) return 1;
  const progress = Math.min((numSteps - warmup) / (end - warmup), 1);
  switch (config.learningRateSchedule) {
    case 'constant':
      return 1;
    case 'linear':
      return 1 - (1 - final) * progress;
    case 'cosine':
      return final + ((1 - final) * (1 + Math.cos(Math.PI * progress))) / 2;
    default:
      return config.learningRateSchedule satisfies never;
  }
}
