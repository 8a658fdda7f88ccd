import type { TrainingConfig } from '../config/training-config.ts';
import { TrainerError } from '../contract/errors.ts';
import type { LearnerCapabilities, LearnerForwardOptions } from '../learner/learner-session.ts';
import type { TrainingJob } from './training-job.ts';

/** True for a KL term, or a reported distance to a named step. */
function hasReference(config: TrainingConfig): boolean {
  return config.klPenaltyCoef > 0 || config.klPenaltyReferenceStep !== null || config.klPenaltyStepLag !== null;
}

/**
 * Null if the job has no KL reference.
 *
 * @throws {TrainerError} `trainer.config_invalid` if the job lacks the version of the requested step
 */
export function referenceWeights({
  config,
  referenceFrom,
}: Pick<TrainingJob, 'config' | 'referenceFrom'>): NonNullable<LearnerForwardOptions['under']> | null {
  if (!hasReference(config)) return null;
  if (referenceFrom === null) return 'base';
  if (referenceFrom !== undefined) return { version: referenceFrom };
  const { klPenaltyReferenceStep, klPenaltyStepLag } = config;
  const asksForAStep = (klPenaltyReferenceStep ?? 0) > 0 || klPenaltyStepLag !== null;
  if (!asksForAStep) return 'base';
  throw new TrainerError(
    'trainer.config_invalid',
    'the checkpoint that `kl_penalty_reference_step` or `kl_penalty_step_lag` asks for was not given',
  );
}

/** The learner must support it. */
export function referenceKind(
  referenceFrom: TrainingJob['referenceFrom'],
  config: TrainingConfig,
): LearnerCapabilities['reference'] {
  if (!hasReference(config)) return 'none';
  return typeof referenceFrom === 'string' ? 'versions' : 'base';
}

/** Null if the job has no reference. @param startStep step that the job trains on */
export function referenceStep(config: TrainingConfig, startStep: number): number | null {
  if (!hasReference(config)) return null;
  if (config.klPenaltyStepLag !== null) return Math.max(0, startStep - config.klPenaltyStepLag);
  return config.klPenaltyReferenceStep ?? 0;
}
