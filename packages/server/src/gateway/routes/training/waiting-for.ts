import type { WaitingForObject } from '@trainyard/protocol';
import type { TrainingJob } from '@trainyard/store';

import type { TrainedBaseModels } from '../../../seams/contract/trained-base-models.ts';

/** Whatever keeps a job in the queue; null when it is not there. */
export function waitingFor(
  { status, pausedAt, baseModel }: Pick<TrainingJob, 'status' | 'pausedAt' | 'baseModel'>,
  trained: TrainedBaseModels,
): WaitingForObject | null {
  if (status !== 'queued') return null;
  if (pausedAt !== null) return { code: 'resume', message: 'it is paused until somebody resumes it' };
  if (trained !== null && !trained.has(baseModel))
    return {
      code: 'base_model',
      message: `no trainer that runs now was given its base model ${baseModel}; it begins once one is (--model)`,
    };
  return { code: 'turn', message: 'other jobs come before it' };
}
