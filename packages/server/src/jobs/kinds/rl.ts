import { resolveTrainingConfig, type TrainingConfig } from '@trainyard/trainer';

import type { TrainingJobConfig } from '../../hosts/process/messages.ts';

/** Reads the stored settings of a job that trains on rollouts; one that waited through an update lacks the settings that came with it. */
export function rlJob(stored: Record<string, unknown>): TrainingJobConfig {
  return { kind: 'rl', config: { ...resolveTrainingConfig({}), ...(stored as unknown as TrainingConfig) } };
}
