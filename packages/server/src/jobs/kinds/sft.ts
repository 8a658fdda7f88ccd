import { storedSftConfig } from '@trainyard/trainer';

import type { TrainingJobConfig } from '../../hosts/process/messages.ts';

export function sftJob(stored: Record<string, unknown>): TrainingJobConfig {
  return { kind: 'sft', config: storedSftConfig(stored) };
}
