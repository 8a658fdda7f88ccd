import type { Blobs, ClaimedJob, Model, Store } from '@trainyard/store';
import { referenceStep, type TrainingConfig } from '@trainyard/trainer';

import { JobFault } from '../faults/http-faults.ts';
import type { TrainingJobRequest } from '../hosts/messages.ts';

type JobWeights = Pick<TrainingJobRequest, 'startFrom' | 'withFreshOptimizer' | 'referenceFrom' | 'policyVersions'>;

/** Checkpoints of a page. */
const PAGE = 100;

/**
 * The adapter versions of a job, by key: what it starts from, and what it compares with. Both stay on disk until it ends, whatever is
 * deleted meanwhile.
 *
 * @throws {JobFault} `trainer.checkpoint_unreadable`, `trainer.config_invalid` for a reference step that does not exist
 */
export async function jobWeights(
  parts: { store: Store; blobs: Blobs },
  job: ClaimedJob,
  model: Model,
): Promise<JobWeights> {
  const key = job.start?.directoryKey ?? null;
  if (key !== null && (await parts.blobs.localDirectory(key)) === null)
    throw unreadable(`the files of step ${job.start?.step} that this job starts from are gone`);
  if (job.start === null && model.warmStart !== null)
    throw unreadable('every checkpoint of the model was deleted, and it did not begin at the base model');
  return {
    startFrom: key,
    withFreshOptimizer: key !== null && key === model.warmStart?.directoryKey,
    ...(await reference(parts, job, model)),
    ...(job.kind === 'rl' ? { policyVersions: await policyVersions(parts.store, model) } : {}),
  };
}

/** Keys of the model's checkpoints, by digest: rollouts may be older than the weights that a job starts from. */
async function policyVersions(store: Store, { id: modelId }: Model): Promise<ReadonlyMap<string, string>> {
  const versions = new Map<string, string>();
  for (let after: string | null = null; ;) {
    const page = await store.listCheckpoints({ modelId, limit: PAGE, order: 'desc', after });
    for (const { digest, directoryKey } of page.items)
      if (digest !== null && directoryKey !== null) versions.set(digest, directoryKey);
    after = page.items.at(-1)?.id ?? null;
    if (!page.hasMore || after === null) return versions;
  }
}

async function reference(
  parts: { store: Store; blobs: Blobs },
  job: ClaimedJob,
  model: Model,
): Promise<Pick<JobWeights, 'referenceFrom'>> {
  const step = job.kind === 'rl' ? referenceStep(job.config['resolved'] as TrainingConfig, job.start?.step ?? 0) : null;
  if (step === null) return {};
  const checkpoint = await parts.store.keepReference(job.id, job.fencingToken, step);
  // Without files the weights of step 0 are those of the base model, which are always there.
  const isBase = checkpoint === null ? step === 0 && model.warmStart === null : checkpoint.directoryKey === null;
  if (isBase) return { referenceFrom: null };
  const key = checkpoint?.directoryKey ?? null;
  if (key !== null && (await parts.blobs.localDirectory(key)) !== null) return { referenceFrom: key };
  throw new JobFault('trainer.config_invalid', `step ${step}, which is the reference of this job, does not exist`);
}

function unreadable(message: string): JobFault {
  return new JobFault('trainer.checkpoint_unreadable', message);
}
