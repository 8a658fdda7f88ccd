import {
  ProgressFiles,
  runSftJob,
  runTrainingJob,
  TraceFiles,
  TrainerError,
  type TrainingParts,
} from '@trainyard/trainer';
import { type Blobs, StoreError } from '@trainyard/store/blobs';

import { isPassing } from '../../seams/faults/passing-fault.ts';
import { readSftExamples } from '../../training-data/stored/sft-blob.ts';
import { readTrajectoryGroups } from '../../training-data/stored/trajectory-blob.ts';
import type { JobLearners } from './job-learners.ts';
import { JobVersions } from './job-versions.ts';
import type { TrainingJobRequest } from '../process/messages.ts';
import { SnapshotCopier } from './snapshot-copier.ts';

export interface TrainJobParts extends Pick<TrainingParts, 'signal' | 'emit'> {
  readonly blobs: Blobs;
  readonly workDirectory: string;
  readonly learners: JobLearners;
  readonly remoteKey: string | null;
  /** Receives lines for the operator. Default: none. */
  readonly log?: (line: string) => void;
}

/**
 * Runs one job, from its blobs to the blobs of its version: opens a learner and runs the training loop over
 * it.
 * @throws {TrainerError} and {StoreError}, also from within the loop: a passing error must not end the job
 */
export async function trainJob(job: TrainingJobRequest, parts: TrainJobParts) {
  const { blobs, workDirectory, learners, remoteKey, signal, emit, log } = parts;
  signal.throwIfAborted();
  const { snapshot = null } = job;
  if (snapshot !== null) {
    const line = await new SnapshotCopier(blobs, workDirectory).bring(job.snapshots, snapshot);
    if (line !== null) log?.(`job ${job.jobId}: ${line}`);
    signal.throwIfAborted();
  }
  const versions = new JobVersions(blobs, { ...job, workDirectory });
  const opened = await learners.open(job, { versions, remoteKey });
  try {
    return await train(job, blobs, {
      learner: opened.learner,
      template: opened.template,
      progress: new ProgressFiles(workDirectory),
      ...(job.keepsTraces ? { traces: new TraceFiles(workDirectory) } : {}),
      signal,
      emit,
    });
  } catch (error) {
    throw blobFault(error) ?? error;
  } finally {
    await opened.end();
  }
}

/** Blob error inside a `trainer.internal`, the loop's wrapper for unknown errors. */
function blobFault(error: unknown): unknown {
  if (!(error instanceof TrainerError) || error.code !== 'trainer.internal') return null;
  const { cause } = error;
  const isCorrupt = cause instanceof StoreError && cause.code === 'store.blob_corrupt';
  return isCorrupt || isPassing(cause) ? cause : null;
}

async function train(job: TrainingJobRequest, blobs: Blobs, parts: TrainingParts) {
  if (job.kind === 'sft') return await runSftJob({ ...job, examples: readSftExamples(blobs, job.dataKey) }, parts);
  const groups = await readTrajectoryGroups(blobs, job.dataKey, {
    keepsBareIds: job.config.allowTrainingWithoutLogprobs,
  });
  parts.signal.throwIfAborted();
  return await runTrainingJob({ ...job, groups }, parts);
}
