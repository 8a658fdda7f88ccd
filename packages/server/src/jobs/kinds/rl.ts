import { resolveTrainingConfig, type TrainingConfig } from '@trainyard/trainer';

import type { TrainingJobKind } from '../../hosts/messages.ts';

/** What a job that trains on rollouts asks of its learner; one that waited through an update lacks the settings that came with it. */
export function rlJob(stored: Record<string, unknown>): TrainingJobKind {
  return { kind: 'rl', config: { ...resolveTrainingConfig({}), ...(stored as unknown as TrainingConfig) } };
}
