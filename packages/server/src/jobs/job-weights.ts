import type { Blobs, ClaimedJob, Model, Store } from '@trainyard/store';
import { type JobWarning, referenceStep, type RolloutsBeginning, type TrainingConfig } from '@trainyard/trainer';

import { versionName } from '../seams/contract/model-names.ts';
import { damageMessage } from '../seams/faults/damaged-files.ts';
import { JobFault } from '../seams/faults/http-faults.ts';
import type { TrainingJobRequest } from '../hosts/process/messages.ts';
import { checkFolder } from '../seams/integrity/check-folder.ts';

interface JobWeightParts {
  readonly store: Store;
  readonly blobs: Blobs;
  readonly log: (line: string) => void;
}

type JobWeights = Pick<
  TrainingJobRequest,
  'startFrom' | 'withFreshOptimizer' | 'referenceFrom' | 'policyVersions' | 'beganFrom'
>;

/** They are sent to the trainer's host with each job. Rollouts of older versions are long before the job. */
const MAX_POLICY_VERSIONS = 1000;

/**
 * Adapter versions of a job, by key: its start and its reference. Both stay on disk until it ends, even if
 * deleted meanwhile.
 * @throws {JobFault} `trainer.checkpoint_unreadable`, `trainer.checkpoint_damaged`, `trainer.config_invalid`
 * for a missing reference step
 */
export async function jobWeights(parts: JobWeightParts, job: ClaimedJob, model: Model): Promise<JobWeights> {
  const key = job.start?.directoryKey ?? null;
  if (
    key !== null &&
    !(await isThere(parts, { key, digest: job.start?.digest ?? null, model, step: job.start?.step ?? 0 }))
  )
    throw unreadable(`the files of step ${job.start?.step} that this job starts from are missing`);
  if (job.start === null && model.warmStart !== null)
    throw unreadable('every checkpoint of the model was deleted, and it did not start from the base model');
  return {
    startFrom: key,
    withFreshOptimizer:
      key !== null && (key === model.warmStart?.directoryKey || (await parts.store.retention.isOptimizerDropped(key))),
    ...(await reference(parts, job, model)),
    ...(job.kind === 'rl'
      ? {
          // Rollouts may be older than the weights that a job starts from.
          policyVersions: await parts.store.checkpoints.newestVersions(model.id, MAX_POLICY_VERSIONS),
          beganFrom: await beginningOf(parts, job, model),
        }
      : {}),
  };
}

/** Warning for a job that continues from a step whose optimizer state was removed; otherwise null. */
export function optimizerWarning(
  { start }: Pick<ClaimedJob, 'start'>,
  { warmStart }: Pick<Model, 'warmStart'>,
  { startFrom, withFreshOptimizer }: Pick<JobWeights, 'startFrom' | 'withFreshOptimizer'>,
): JobWarning | null {
  // The weights of another model never come with its optimizer.
  if (start === null || withFreshOptimizer !== true || startFrom === warmStart?.directoryKey) return null;
  return {
    code: 'optimizer_fresh',
    message: `the optimizer state of step ${start.step}, which this job starts from, was removed: the optimizer starts with an empty state`,
    value: start.step,
    suggestion:
      'the weights are complete; the first gradient steps may be larger than usual. `--keep-checkpoints` with a larger `optimizer=N`, or `trainyard checkpoints keep`, keeps the state of more steps',
  };
}

/** Initial weights of the model's training on rollouts: of the last supervised job, or of step 0. */
async function beginningOf(
  { store, blobs }: JobWeightParts,
  job: ClaimedJob,
  model: Model,
): Promise<RolloutsBeginning> {
  const step = await store.checkpoints.rolloutsBeganAt(model.id, job.start?.step ?? 0);
  const checkpoint = await store.checkpoints.get(model.id, step);
  if (checkpoint === null) return step === 0 && model.warmStart === null ? 'base' : 'gone';
  const { directoryKey: key } = checkpoint;
  if (key === null) return 'base';
  return (await blobs.localDirectory(key)) === null ? 'gone' : { version: key };
}

async function reference(
  parts: JobWeightParts,
  job: ClaimedJob,
  model: Model,
): Promise<Pick<JobWeights, 'referenceFrom'>> {
  const step = job.kind === 'rl' ? referenceStep(job.config['resolved'] as TrainingConfig, job.start?.step ?? 0) : null;
  if (step === null) return {};
  const checkpoint = await parts.store.jobs.keepReference(job.id, job.fencingToken, step);
  // Without files, step 0 has the weights of the base model, which are always there.
  const isBase = checkpoint === null ? step === 0 && model.warmStart === null : checkpoint.directoryKey === null;
  if (isBase) return { referenceFrom: null };
  const key = checkpoint?.directoryKey ?? null;
  if (key !== null && (await isThere(parts, { key, digest: null, model, step }))) return { referenceFrom: key };
  throw new JobFault('trainer.config_invalid', `step ${step} (the reference of this job) does not exist`);
}

/**
 * True if a version has its files, with their recorded digests.
 * @throws {JobFault} `trainer.checkpoint_damaged`
 */
export async function isThere(
  { blobs, log }: Pick<JobWeightParts, 'blobs' | 'log'>,
  { key, digest, model, step }: { key: string; digest: string | null; model: Model; step: number },
): Promise<boolean> {
  try {
    const directory = await blobs.localDirectory(key);
    if (directory !== null) await checkFolder(directory, { digest, use: 'training', log });
    return directory !== null;
  } catch (error) {
    const message = damageMessage(versionName(model, step), error);
    throw message === null ? error : new JobFault('trainer.checkpoint_damaged', message);
  }
}

function unreadable(message: string): JobFault {
  return new JobFault('trainer.checkpoint_unreadable', message);
}
