import type { TrainingConfig } from '../config/training-config.ts';
import { TrainerError } from '../contract/errors.ts';
import type { LearnerCapabilities, LearnerForwardOptions } from '../learner/learner-session.ts';
import type { TrainingJob } from './training-job.ts';

/** True if a job compares with a reference: for its KL term, or to report the distance to a named step. */
function hasReference(config: TrainingConfig): boolean {
  return config.klPenaltyCoef > 0 || config.klPenaltyReferenceStep !== null || config.klPenaltyStepLag !== null;
}

/**
 * Weights of the KL reference, for `forward`; null if the job has none.
 *
 * @throws {TrainerError} `trainer.config_invalid` if the job lacks the version of the requested reference step
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

/** Kind of reference that the learner must support. */
export function referenceKind(
  referenceFrom: TrainingJob['referenceFrom'],
  config: TrainingConfig,
): LearnerCapabilities['reference'] {
  if (!hasReference(config)) return 'none';
  return typeof referenceFrom === 'string' ? 'versions' : 'base';
}

/** Step whose adapter is the reference; null if the job has none. @param startStep step that the job trains on */
export function referenceStep(config: TrainingConfig, startStep: number): number | null {
  if (!hasReference(config)) return null;
  if (config.klPenaltyStepLag !== null) return Math.max(0, startStep - config.klPenaltyStepLag);
  return config.klPenaltyReferenceStep ?? 0;
}
