import { storedSftConfig } from '@trainyard/trainer';

import type { TrainingJobKind } from '../../hosts/messages.ts';

/** What a supervised job asks of its learner. */
export function sftJob(stored: Record<string, unknown>): TrainingJobKind {
  return { kind: 'sft', config: storedSftConfig(stored) };
}
