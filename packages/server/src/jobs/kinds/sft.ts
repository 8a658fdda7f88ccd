import { storedSftConfig } from '@trainyard/trainer';

import type { TrainingJobConfig } from '../../hosts/process/messages.ts';

/** Reads the stored settings of a supervised job. */
export function sftJob(stored: Record<string, unknown>): TrainingJobConfig {
  return { kind: 'sft', config: storedSftConfig(stored) };
}
