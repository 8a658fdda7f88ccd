import { storedSftConfig } from '@trainyard/trainer';

import type { TrainingJobConfig } from '../../hosts/process/messages.ts';
import { heldOutSource, type SftSource } from '../../training-data/wire/sft-config.ts';

/** @param source data of the job, absent in jobs of earlier releases */
export function sftJob(stored: Record<string, unknown>, source: unknown): TrainingJobConfig {
  const heldOut = source === undefined ? null : heldOutSource(source as SftSource);
  return { kind: 'sft', config: storedSftConfig(stored), heldOut };
}
