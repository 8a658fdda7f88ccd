import type { WaitingForObject } from '@trainyard/protocol';
import type { TrainingJob } from '@trainyard/store';

import type { HubBases } from '../../../seams/contract/hub-bases.ts';
import type { TrainedBaseModels } from '../../../seams/contract/trained-base-models.ts';

/** Reason why a job is queued; null if it is not. */
export function waitingFor(
  { status, pausedAt, baseModel }: Pick<TrainingJob, 'status' | 'pausedAt' | 'baseModel'>,
  trained: TrainedBaseModels,
  hub: HubBases | null,
): WaitingForObject | null {
  if (status !== 'queued') return null;
  if (pausedAt !== null) return { code: 'resume', message: 'Paused. Resume the job to continue.' };
  if (trained !== null && !trained.has(baseModel)) {
    const absence = hub?.absence(baseModel) ?? null;
    if (absence !== null) return { code: 'base_model', message: absence.message };
    return {
      code: 'base_model',
      message: `No running trainer has base model ${baseModel}. The job starts when one does (--model).`,
    };
  }
  return { code: 'turn', message: 'Waiting for earlier jobs.' };
}
