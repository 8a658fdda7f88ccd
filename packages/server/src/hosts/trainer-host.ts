/**
 * Main module of the trainer host: ONNX Runtime and the training mathematics, in a process of their own.
 *
 * It runs one job at a time, as the worker in the API process hands them over, and reports each finished gradient step. The loop of a job and
 * the learner that it drives are both in here, so that no log-probability leaves the process; unless the learner is on a server elsewhere, which
 * is talked to from here.
 */
import { ProgressFiles, runSftJob, runTrainingJob, TraceFiles, type TrainingParts } from '@trainyard/trainer';
import { openBlobs } from '@trainyard/store';

import { retryOf } from '../faults/retry-of.ts';
import { readSftExamples } from '../training-data/sft-blob.ts';
import { readTrajectoryGroups } from '../training-data/trajectory-blob.ts';
import { connectHost, failureOf, hostOptions, openOrRefuse } from './host-main.ts';
import { IdleRelease } from '../computing/idle-release.ts';
import { EmbeddedLearners, type JobLearners, RemoteLearners } from './job-learners.ts';
import { JobVersions } from './job-versions.ts';
import type { TrainerHostCommand, TrainerHostMessage, TrainerHostOptions, TrainingJobRequest } from './messages.ts';

/** The weights of the default model take 0.7 GB as f32: given back when nothing was trained for this long. */
const UNLOAD_AFTER_MS = 10 * 60_000;

const options = hostOptions<TrainerHostOptions>();
const { workDirectory } = options;
const blobs = await openOrRefuse(() => openBlobs(options.blobs));
const { send, lease } = connectHost<TrainerHostCommand, TrainerHostMessage>(onCommand);
// Lanes of one thread each, and threads of ONNX Runtime that sleep between operators.
lease.use = 'beside';
const running = new Map<string, AbortController>();
let queue: Promise<void> = Promise.resolve();
const learners: JobLearners =
  options.remote === null
    ? new EmbeddedLearners(options, lease)
    : new RemoteLearners({ ...options, ...options.remote }, (line) => send({ kind: 'log', line }));
const weights = new IdleRelease(UNLOAD_AFTER_MS, () => learners.rest());

send({ kind: 'ready' });

function onCommand(command: TrainerHostCommand): void {
  switch (command.kind) {
    case 'run-job':
      running.set(command.job.jobId, new AbortController());
      weights.begin();
      queue = queue.then(() => runAndReport(command.job, command.remoteKey));
      break;
    case 'cancel-job':
      running.get(command.jobId)?.abort(new DOMException('the job was cancelled', 'AbortError'));
      break;
    case 'shutdown':
      // A job in flight goes on from its last snapshot in the next life.
      process.exit(0);
      break;
    default:
      command satisfies never;
  }
}

async function runAndReport(job: TrainingJobRequest, remoteKey: string | null): Promise<void> {
  const signal = running.get(job.jobId)?.signal ?? AbortSignal.abort();
  try {
    const result = await run(job, remoteKey, signal);
    send({ kind: 'job-done', jobId: job.jobId, result });
  } catch (error) {
    const failure = failureOf(error);
    send({
      kind: 'job-failed',
      jobId: job.jobId,
      failure: signal.aborted
        ? { ...failure, code: 'trainer.cancelled', retry: 'never' }
        : { ...failure, retry: retryOf(error) },
    });
  } finally {
    running.delete(job.jobId);
    lease.giveBack();
    weights.end();
  }
}

async function run(job: TrainingJobRequest, remoteKey: string | null, signal: AbortSignal) {
  signal.throwIfAborted();
  const versions = new JobVersions(blobs, { ...job, workDirectory });
  const opened = await learners.open(job, { versions, remoteKey });
  try {
    return await train(job, {
      learner: opened.learner,
      template: opened.template,
      progress: new ProgressFiles(workDirectory),
      ...(job.keepsTraces ? { traces: new TraceFiles(workDirectory) } : {}),
      signal,
      emit: (event) => send({ kind: 'trainer-event', jobId: job.jobId, event }),
    });
  } finally {
    await opened.end();
  }
}

async function train(job: TrainingJobRequest, parts: TrainingParts) {
  if (job.kind === 'sft') return await runSftJob({ ...job, examples: readSftExamples(blobs, job.dataKey) }, parts);
  const groups = await readTrajectoryGroups(blobs, job.dataKey, {
    keepsBareIds: job.config.allowTrainingWithoutLogprobs,
  });
  parts.signal.throwIfAborted();
  return await runTrainingJob({ ...job, groups }, parts);
}
