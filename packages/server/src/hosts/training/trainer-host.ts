/**
 * Main module of the trainer host: ONNX Runtime and the training mathematics, in a process of their own.
 *
 * It runs one job at a time, as the worker in the API process hands them over, and reports each finished gradient step. The loop of a job and
 * the learner that it drives are both in here, so that no log-probability leaves the process; unless the learner is on a server elsewhere, which
 * is talked to from here.
 */
import { setTimeout as delay } from 'node:timers/promises';

import { type BucketRequest, openBlobs } from '@trainyard/store';
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

/** Between two looks at a trainer elsewhere. */
const WATCH_MS = 15_000;
/** A server without a free slot does not tell its largest rank: it is asked again at every so manyth look. */
const LOOKS_PER_QUESTION = 8;

/** The weights of the default model take 0.7 GB as f32: given back when nothing was trained for this long. */
const UNLOAD_AFTER_MS = 10 * 60_000;

const options = hostOptions<TrainerHostOptions>();
const { workDirectory, oneDnnPath } = options;
if (oneDnnPath !== null && options.remote === null) await openOrRefuse(() => requireBf16(oneDnnPath));
// Nobody listens before there is something to say it with.
let tellRequest: (request: BucketRequest) => void = () => undefined;
const blobs = await openOrRefuse(() =>
  openBlobs(options.blobs, process.env, {
    onRequest: (request) => tellRequest(request),
    onRepair: (line) => send({ kind: 'log', line }),
  }),
);
const { send, lease } = connectHost<TrainerHostCommand, TrainerHostMessage>(onCommand);
tellRequest = (request) => send({ kind: 'bucket-request', request });
// Lanes of one thread each, and threads of ONNX Runtime that sleep between operators.
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
      // A job in flight goes on from its last snapshot in the next life.
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

/** Jobs find out by themselves; this tells whoever has none, before an evening of rollouts. */
async function watchRemote(
  remote: NonNullable<TrainerHostOptions['remote']>,
  remoteKey: string | null,
  contact: TrainerContact,
): Promise<void> {
  let told: string | null | undefined;
  let knowsRank = false;
  let numLooks = 0;
  const tell = async ({ absence, facts }: TrainerContact): Promise<void> => {
    const changes = told === undefined || (absence === null) !== (told === null);
    if (changes) send({ kind: 'remote-state', absence });
    told = absence;
    // A server that was away may be another one.
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
    await tell(found);
  };
  await tell(contact);
  // One look after the other: a slow one must not contradict a later one.
  for (;;) {
    await delay(WATCH_MS, undefined, { ref: false });
    await look().catch((error: unknown) =>
      send({ kind: 'log', line: `looking at the trainer failed: ${String(error)}` }),
    );
  }
}

/** While the job goes on: it waits for nothing of this. */
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
