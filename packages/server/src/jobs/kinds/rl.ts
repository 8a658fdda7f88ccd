import { resolveTrainingConfig, type TrainingConfig } from '@trainyard/trainer';

import type { TrainingJobConfig } from '../../hosts/process/messages.ts';

/**
 * Reads the stored settings of a job on rollouts. Settings added by an update while it waited get their
 * defaults.
 */
export function rlJob(stored: Record<string, unknown>): TrainingJobConfig {
  return { kind: 'rl', config: { ...resolveTrainingConfig({}), ...(stored as unknown as TrainingConfig) } };
}
