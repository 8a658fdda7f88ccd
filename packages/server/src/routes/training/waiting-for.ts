import type { WaitingForObject } from '@trainyard/protocol';
import type { TrainingJob } from '@trainyard/store';

import type { RouteParts } from '../server-parts.ts';

/** Ids of the base models that some trainer which runs now takes jobs of, in this process or another; null: any. */
export type TrainedBaseModels = ReadonlySet<string> | null;

export async function trainedBaseModels({
  store,
  training,
}: Pick<RouteParts, 'store' | 'training'>): Promise<TrainedBaseModels> {
  if (training.baseModels === null) return null;
  const trainers = (await store.listMembers()).filter(({ role, isDraining }) => role === 'trainer' && !isDraining);
  return new Set([...training.baseModels, ...trainers.flatMap(({ baseModels }) => baseModels.map(({ id }) => id))]);
}

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
