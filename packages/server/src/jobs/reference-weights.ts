import type { Blobs, ClaimedJob, Model, Store } from '@trainyard/store';
import { referenceStep, type TrainingConfig } from '@trainyard/trainer';

import { TrainingRunError } from '../hosts/embedded-training.ts';
import type { TrainingJobRequest } from '../hosts/messages.ts';

/**
 * The weights that a job compares with. They stay on disk until it ends, whatever is deleted meanwhile.
 *
 * @throws {TrainingRunError} `trainer.config_invalid` when the step does not exist
 */
export async function referenceWeights(
  parts: { store: Store; blobs: Blobs },
  job: ClaimedJob,
  model: Model,
): Promise<Pick<TrainingJobRequest, 'referenceFrom'>> {
  if (job.kind !== 'rl') return {};
  const step = referenceStep(job.config['resolved'] as TrainingConfig, job.start?.step ?? 0);
  if (step === null) return {};
  const checkpoint = await parts.store.keepReference(job.id, job.fencingToken, step);
  // Without files the weights of step 0 are those of the base model, which are always there.
  const isBase = checkpoint === null ? step === 0 && model.init === null : checkpoint.artifactKey === null;
  if (isBase) return { referenceFrom: null };
  const key = checkpoint?.artifactKey ?? null;
  const directory = key === null ? null : await parts.blobs.localDirectory(key);
  if (directory !== null) return { referenceFrom: directory };
  throw new TrainingRunError({
    code: 'trainer.config_invalid',
    message: `step ${step}, which is the reference of this job, does not exist`,
  });
}
