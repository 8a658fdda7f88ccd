/**
 * Main module of the trainer host: ONNX Runtime and the training mathematics, in a separate process. Runs one
 * job at a time, sent by the worker in the API process. The loop of a job and its learner are both here, so
 * that no log-probability leaves the process, except with a remote learner.
 */
import { setTimeout as delay } from 'node:timers/promises';

import type { BucketRequest } from '@trainyard/store';
import { openBlobs } from '@trainyard/store/blobs';
import { askMaxRank } from '@trainyard/tinker';
import { requireBf16 } from '@trainyard/trainer';

import { retryOf } from '../../seams/faults/retry-of.ts';
import { contactTrainer, type TrainerContact } from '../remote/contact-trainer.ts';
import { connectHost, failureOf, hostOptions, openOrRefuse } from '../process/host-main.ts';
import { IdleRelease } from '../computing/idle-release.ts';
import { EmbeddedLearners, type JobLearners, RemoteLearners } from './job-learners.ts';
import type {
  SnapshotCopyOrder,
  TrainerHostCommand,
  TrainerHostMessage,
  TrainerHostOptions,
  TrainingJobRequest,
} from '../process/messages.ts';
import { trainJob } from './train-job.ts';
import { SnapshotCopier } from './snapshot-copier.ts';

/** Time between two checks of a remote trainer. */
const WATCH_MS = 15_000;
/**
 * A server without a free slot does not report its largest rank: it is asked again at every such number of
 * checks.
 */
const LOOKS_PER_QUESTION = 8;

/** The default model's f32 weights take 0.7 GB: they are freed after this long without training. */
const UNLOAD_AFTER_MS = 10 * 60_000;

const options = hostOptions<TrainerHostOptions>();
const { workDirectory, oneDnnPath } = options;
if (oneDnnPath !== null && options.remote === null) await openOrRefuse(() => requireBf16(oneDnnPath));
// Set below, once there is a line to send on.
let reportRequest: (request: BucketRequest) => void = () => undefined;
const blobs = await openOrRefuse(() =>
  openBlobs(options.blobs, process.env, {
    onRequest: (request) => reportRequest(request),
    onRepair: (line) => send({ kind: 'log', line }),
  }),
);
const { send, lease } = connectHost<TrainerHostCommand, TrainerHostMessage>(onCommand);
reportRequest = (request) => send({ kind: 'bucket-request', request });
// Lanes of one thread each, and ONNX Runtime threads that sleep between operators.
lease.use = 'beside';
const copier = new SnapshotCopier(blobs, workDirectory);
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
    case 'contact-remote':
      void contactAndReport(command.remoteKey);
      break;
    case 'copy-snapshot':
      void copyAndReport(command);
      break;
    case 'cancel-job':
      running.get(command.jobId)?.abort(new DOMException('the job was cancelled', 'AbortError'));
      break;
    case 'shutdown':
      // A job in flight continues from its last snapshot in the next process.
      process.exit(0);
      break;
    default:
      command satisfies never;
  }
}

async function contactAndReport(remoteKey: string | null): Promise<void> {
  const { remote } = options;
  if (remote === null) return send({ kind: 'remote-contacted', lines: [] });
  try {
    const contact = await contactTrainer(remote, remoteKey);
    send({ kind: 'remote-contacted', lines: contact.lines });
    await watchRemote(remote, remoteKey, contact);
  } catch (error) {
    send({ kind: 'remote-refused', failure: failureOf(error) });
    await watchRemote(remote, remoteKey, { lines: [], absence: (error as Error).message });
  }
}

/** Jobs notice by themselves; this reports to users without a job, before hours of rollouts. */
async function watchRemote(
  remote: NonNullable<TrainerHostOptions['remote']>,
  remoteKey: string | null,
  contact: TrainerContact,
): Promise<void> {
  let reported: string | null | undefined;
  let knowsRank = false;
  let numLooks = 0;
  const report = async ({ absence, facts }: TrainerContact): Promise<void> => {
    const changes = reported === undefined || (absence === null) !== (reported === null);
    if (changes) send({ kind: 'remote-state', absence });
    reported = absence;
    // A server that was away may have been replaced.
    const isTurn = numLooks++ % LOOKS_PER_QUESTION === 0;
    if (facts === undefined || !(changes || (isTurn && !knowsRank))) return;
    const maxRank = await askMaxRank(facts, (line) => send({ kind: 'log', line }));
    knowsRank = maxRank !== null || facts.profile.rankRefusal === null;
    if (maxRank !== null) send({ kind: 'remote-max-rank', maxRank });
  };
  const look = async (): Promise<void> => {
    const found = await contactTrainer(remote, remoteKey).catch((error: Error) => ({
      lines: [],
      absence: error.message,
    }));
    await report(found);
  };
  await report(contact);
  // Checks run one after the other: a slow one must not contradict a later one.
  for (;;) {
    await delay(WATCH_MS, undefined, { ref: false });
    await look().catch((error: unknown) =>
      send({ kind: 'log', line: `looking at the trainer failed: ${String(error)}` }),
    );
  }
}

/** Runs while the job continues, which does not wait for it. */
async function copyAndReport({ directoryKey, snapshots }: SnapshotCopyOrder): Promise<void> {
  try {
    send({ kind: 'snapshot-copied', directoryKey, numGradientSteps: await copier.copy(snapshots, directoryKey) });
  } catch (error) {
    send({ kind: 'snapshot-failed', directoryKey, failure: failureOf(error) });
  }
}

async function runAndReport(job: TrainingJobRequest, remoteKey: string | null): Promise<void> {
  const signal = running.get(job.jobId)?.signal ?? AbortSignal.abort();
  try {
    const result = await trainJob(job, {
      blobs,
      workDirectory,
      learners,
      remoteKey,
      signal,
      log: (line) => send({ kind: 'log', line }),
      emit: (event) => send({ kind: 'trainer-event', jobId: job.jobId, event }),
    });
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
