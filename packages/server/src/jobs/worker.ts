import { randomUUID } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';

import type { Blobs, ClaimedJob, Model, Store } from '@trainyard/store';
import { StoreError } from '@trainyard/store';
import {
  resolveTrainingConfig,
  storedSftConfig,
  type TrainerEvent,
  type TrainingConfig,
  type TrainingResult,
} from '@trainyard/trainer';

import type { TrainingQueue } from '../contract/backends.ts';
import { TrainingRunError, type TrainingBackend } from '../hosts/embedded-training.ts';
import type { JobMetrics } from '../metrics/job-metrics.ts';
import type { TrainingJobKind, TrainingJobRequest } from '../hosts/messages.ts';
import { clientFailure } from '../faults/http-faults.ts';
import { nameFile } from '../data/remove-unless-named.ts';
import { endData, startedLine, wireEvent } from './job-events.ts';
import { JobLease } from './job-lease.ts';
import { jobWeights } from './job-weights.ts';
import { isPassing } from './passing-fault.ts';
import { retryOf } from './retry-of.ts';
import { WorkLoop } from './work-loop.ts';
import { removeEnded, removeIfEnded } from './snapshot-folders.ts';

/** A worker that misses two heartbeats is taken for dead. */
const LEASE_MS = 30_000;
const HEARTBEAT_MS = 10_000;
/** A full disk is looked at again after this: each look repeats the gradient step that could not be kept. */
const DISK_PAUSE_MS = 10_000;
/** Another replica may have queued a job: looked for this often when nobody notifies. */
const POLL_MS = 1_000;
/** A host that dies this often in a row without finishing a gradient step in between will not finish this job. */
const MAX_LOSSES_WITHOUT_PROGRESS = 3;
/** A job that was in flight at so many crashes of the whole service, without finishing a gradient step in between, is taken to be the reason. */
const MAX_ATTEMPTS = 5;

export interface TrainingWorkerOptions {
  readonly store: Store;
  readonly blobs: Blobs;
  readonly backend: TrainingBackend;
  /** model file to train on; asked for each job, since it is known only once the engine host is up */
  readonly modelPath: () => string;
  /** folder of the snapshots of running jobs */
  readonly workDirectory: string;
  /** Count what jobs do. Default: nothing is counted. */
  readonly metrics?: JobMetrics;
  readonly log: (line: string) => void;
  /** how long a claim holds without a renewal, default 30 s */
  readonly leaseMs?: number;
  /** time between two renewals, default 10 s */
  readonly heartbeatMs?: number;
}

/**
 * Takes queued jobs one after the other and sees each through to its one terminal event.
 *
 * The order that makes a crash harmless: snapshot on disk → `gradient_step` event; the job's version committed → one transaction with the
 * checkpoint row, `training_ended` and the status. A worker that lost its lease can no longer write anything.
 *
 * A store that is busy or full fails no job: what is to be written is tried again until the lease ends, then the training stops and the job goes
 * back to the queue, to go on from its last snapshot.
 */
export class TrainingWorker implements TrainingQueue {
  readonly #options: TrainingWorkerOptions;
  #current: { job: ClaimedJob; lease: JobLease; ended: Promise<void> } | null = null;
  readonly #loop: WorkLoop;

  constructor(options: TrainingWorkerOptions) {
    this.#options = options;
    const { store, log } = options;
    this.#loop = new WorkLoop({
      name: 'training worker',
      pollMs: POLL_MS,
      workOnce: async () => {
        const job = await store.claimNextJob(store.instanceId, options.leaseMs ?? LEASE_MS);
        if (job !== null) await this.#see(job);
        return job !== null;
      },
      log,
    });
  }

  start(): void {
    const { store, workDirectory, log } = this.#options;
    removeEnded(store, workDirectory)
      .catch((error: unknown) => log(`old snapshots stay on disk: ${String(error)}`))
      .finally(() => this.#loop.start());
  }

  /** Stops after putting the job in flight back into the queue; it goes on from its last gradient step when a worker starts again. */
  async stop(): Promise<void> {
    const stopped = this.#loop.stop();
    this.#current?.lease.abort(new DOMException('the service is shutting down', 'AbortError'));
    await stopped;
  }

  notify(): void {
    this.#loop.notify();
  }

  async stopJob(jobId: string): Promise<void> {
    const { store, workDirectory } = this.#options;
    const current = this.#current;
    // What was paused or ended makes room for another job.
    this.notify();
    if (current?.job.id !== jobId) return removeIfEnded(store, workDirectory, jobId);
    current.lease.abort(new StoreError('store.lease_lost', 'the job was cancelled or paused'));
    await current.ended;
  }

  trouble(): string | null {
    if (this.#loop.isStopping) return 'it is being stopped';
    return this.#current?.lease.trouble ?? this.#options.backend.trouble();
  }

  /** One job, from claim to terminal event (or back to the queue: at shutdown, or when the store takes nothing until the lease ends). */
  async #see(job: ClaimedJob): Promise<void> {
    const { store, log, leaseMs = LEASE_MS, heartbeatMs = HEARTBEAT_MS } = this.#options;
    const lease = new JobLease({
      name: `job ${job.id}`,
      renew: (ms) => store.renewLease(job.id, job.fencingToken, ms),
      isHeld: async () => (await store.getJob(job.id))?.lease?.fencingToken === job.fencingToken,
      leaseMs,
      heartbeatMs,
      log,
    });
    const ended = Promise.withResolvers<void>();
    this.#current = { job, lease, ended: ended.promise };
    const workDirectory = join(this.#options.workDirectory, job.id);
    try {
      refuseAfterTooManyAttempts(job);
      const request = await lease.insist(() => this.#requestFor(job));
      await lease.insist(() => store.announceKey(request.output));
      const result = await this.#train(job, request, lease);
      await this.#finish(job, result, request.output, lease);
      this.#options.metrics?.end(job, 'succeeded');
    } catch (error) {
      if (await this.#goesOnLater(job, error, lease)) return;
    } finally {
      lease.stop();
      this.#current = null;
      ended.resolve();
    }
    await rm(workDirectory, { recursive: true, force: true });
  }

  /** Settles a job that did not end well. @returns whether somebody goes on with it, for which it needs its snapshots */
  async #goesOnLater(job: ClaimedJob, error: unknown, lease: JobLease): Promise<boolean> {
    const { store, log } = this.#options;
    if (!lease.signal.aborted && !isLostLease(error)) {
      try {
        await lease.insist(() => this.#fail(job, error));
        return false;
      } catch (failure) {
        if (!lease.signal.aborted && !isLostLease(failure)) throw failure;
      }
    }
    lease.stop();
    // Whoever cancelled, paused or claimed it has changed the fencing token or the status; otherwise it is still ours to give back.
    await this.#eventually(() => store.releaseLease(job.id, job.fencingToken).catch(ignoreLostLease));
    if (this.#loop.isStopping) return true;
    const now = await this.#eventually(() => store.getJob(job.id));
    if (now === undefined) return true;
    log(`job ${job.id}: left in the state ${now === null ? 'deleted' : now.pausedAt === null ? now.status : 'paused'}`);
    const isLive = now !== null && now.finishedAt === null;
    if (!isLive) this.#options.metrics?.end(job, 'stopped');
    return isLive;
  }

  /** Does `work` as often as a busy or full store makes it necessary; undefined when the worker is stopped before it could be done. */
  async #eventually<Result>(work: () => Promise<Result>): Promise<Result | undefined> {
    for (;;) {
      try {
        return await work();
      } catch (error) {
        if (!isPassing(error)) throw error;
        if (this.#loop.isStopping) return undefined;
        await this.#loop.pauseAfterFailure();
      }
    }
  }

  async #requestFor(job: ClaimedJob): Promise<TrainingJobRequest> {
    const { store, blobs, modelPath } = this.#options;
    const model: Model | null = await store.getModel(job.modelId);
    if (model === null) throw new StoreError('store.lease_lost', 'the model of this job was deleted');
    return {
      ...kindOf(job),
      jobId: job.id,
      modelPath: modelPath(),
      groupsKey: job.groupsKey,
      lora: model.lora as TrainingJobRequest['lora'],
      ...(await jobWeights({ store, blobs }, job, model)),
      snapshots: job.id,
      output: `checkpoints/${randomUUID()}`,
      // The order of rows differs from step to step and is the same when a step is trained again.
      seed: job.start?.step ?? 0,
    };
  }

  /** Trains; a version that was committed before it was known to fail goes. */
  async #train(job: ClaimedJob, request: TrainingJobRequest, lease: JobLease): Promise<TrainingResult> {
    try {
      return await this.#run(job, request, lease);
    } catch (error) {
      await this.#removeDirectories([request.output]);
      throw error;
    }
  }

  /** Runs the job, again from its last snapshot when its learner is lost or the disk is full. */
  async #run(job: ClaimedJob, request: TrainingJobRequest, lease: JobLease): Promise<TrainingResult> {
    const { store, backend, log } = this.#options;
    let written: Promise<unknown> = Promise.resolve();
    let numFinishedSteps = 0;
    let numLosses = 0;
    const onEvent = (event: TrainerEvent) => {
      const line = startedLine(event, job);
      if (line !== null) log(line);
      lease.goOn();
      if (event.kind === 'gradient_step' && event.index >= numFinishedSteps) {
        numFinishedSteps = event.index + 1;
        numLosses = 0;
      }
      const row = wireEvent(event, job);
      this.#options.metrics?.see(job, row);
      written = written.then(() => lease.insist(() => store.appendEvent(job.id, job.fencingToken, row)));
      // A failed write ends the run; the rejection itself is awaited below.
      written.catch((error: unknown) => lease.abort(error));
    };
    for (;;) {
      try {
        const result = await backend.run(request, { signal: lease.signal, onEvent });
        await written;
        return result;
      } catch (error) {
        await written;
        lease.signal.throwIfAborted();
        const retry = error instanceof TrainingRunError ? error.retry : retryOf(error);
        if (retry === 'never') throw error;
        const { message } = error as Error;
        if (retry === 'wait') {
          lease.waitFor(error as Error);
          await lease.pause(DISK_PAUSE_MS);
          continue;
        }
        numLosses += 1;
        if (numLosses >= MAX_LOSSES_WITHOUT_PROGRESS) {
          throw new TrainingRunError({
            code: 'trainer.host_lost',
            retry: 'never',
            message: `the trainer host died ${numLosses} times in a row on this job without finishing a gradient step: ${message}`,
          });
        }
        log(`job ${job.id}: ${message}; it goes on after gradient step ${numFinishedSteps}`);
      }
    }
  }

  async #finish(job: ClaimedJob, result: TrainingResult, key: string, lease: JobLease): Promise<void> {
    const { store, blobs, log } = this.#options;
    const metrics = Object.fromEntries(Object.entries(result.metrics).map(([name, value]) => [`train/${name}`, value]));
    const data = endData(result);
    const finish = (artifactKey: string | null) =>
      store.finishJobSucceeded(job.id, job.fencingToken, { artifactKey, digest: result.digest, metrics, data });
    const insist: typeof lease.insist = (work) => lease.insist(work);
    if (result.digest === null) {
      await this.#removeDirectories((await insist(() => finish(null))).artifactKeys);
      return;
    }
    const file = { key, kind: 'directory' } as const;
    const finished = await nameFile({ store, blobs, log }, file, () => finish(key), insist);
    // Null: it ended so, though the store said otherwise. What it left is removed at the next start.
    await this.#removeDirectories(finished?.artifactKeys ?? []);
  }

  async #fail(job: ClaimedJob, error: unknown): Promise<void> {
    const { store, log } = this.#options;
    const { code, message } = clientFailure(error);
    log(`job ${job.id} failed (${code}): ${error instanceof Error ? error.message : String(error)}`);
    const { artifactKeys } = await store.finishJobFailed(job.id, job.fencingToken, `${message} (${code})`);
    this.#options.metrics?.end(job, 'failed');
    await this.#removeDirectories(artifactKeys);
  }

  /** Of a job that has ended, so that what cannot be removed is garbage until the next start and nothing worse. */
  async #removeDirectories(artifactKeys: readonly string[]): Promise<void> {
    for (const key of artifactKeys) {
      await this.#options.blobs
        .removeDirectory(key)
        .catch((error: unknown) => this.#options.log(`the directory ${key} stays on disk: ${String(error)}`));
    }
  }
}

function kindOf(job: ClaimedJob): TrainingJobKind {
  const config = job.config['resolved'];
  if (job.kind === 'sft') return { kind: 'sft', config: storedSftConfig(config as Record<string, unknown>) };
  // A job that waited through an update lacks the settings that came with it.
  return { kind: 'rl', config: { ...resolveTrainingConfig({}), ...(config as TrainingConfig) } };
}

function refuseAfterTooManyAttempts(job: ClaimedJob): void {
  if (job.numAttempts <= MAX_ATTEMPTS) return;
  throw new TrainingRunError({
    code: 'trainer.host_lost',
    retry: 'never',
    message: `the service went down ${job.numAttempts - 1} times while this job ran, without a gradient step in between`,
  });
}

function isLostLease(error: unknown): boolean {
  return error instanceof StoreError && error.code === 'store.lease_lost';
}

function ignoreLostLease(error: unknown): void {
  if (!isLostLease(error)) throw error;
}
