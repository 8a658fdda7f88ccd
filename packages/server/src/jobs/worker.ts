import { randomUUID } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';

import type { Blobs, ClaimedJob, Model, Store } from '@trainyard/store';
import { StoreError } from '@trainyard/store';
import {
  resolveTrainingConfig,
  type SftConfig,
  type TrainerEvent,
  type TrainingConfig,
  type TrainingResult,
} from '@trainyard/trainer';

import type { TrainingQueue } from '../backends.ts';
import { TrainingRunError, type TrainingBackend } from '../hosts/embedded-training.ts';
import type { TrainingJobKind, TrainingJobRequest } from '../hosts/messages.ts';
import { endData, startedLine, wireEvent } from './job-events.ts';
import { jobWeights } from './job-weights.ts';
import { WorkLoop } from './work-loop.ts';
import { removeEnded, removeIfEnded } from './snapshot-folders.ts';

/** A worker that misses two heartbeats is taken for dead. */
const LEASE_MS = 30_000;
const HEARTBEAT_MS = 10_000;
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
  readonly log: (line: string) => void;
}

/**
 * Takes queued jobs one after the other and sees each through to its one terminal event.
 *
 * The order that makes a crash harmless: snapshot on disk → `gradient_step` event; checkpoint directory committed → one transaction with the
 * checkpoint row, `training_ended` and the status. A worker that lost its lease can no longer write anything.
 */
export class TrainingWorker implements TrainingQueue {
  readonly #options: TrainingWorkerOptions;
  readonly #workerId = randomUUID();
  #current: { job: ClaimedJob; controller: AbortController; ended: Promise<void> } | null = null;
  readonly #loop: WorkLoop;

  constructor(options: TrainingWorkerOptions) {
    this.#options = options;
    const { store, log } = options;
    this.#loop = new WorkLoop({
      name: 'training worker',
      pollMs: POLL_MS,
      workOnce: async () => {
        const job = await store.claimNextJob(this.#workerId, LEASE_MS);
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
    this.#current?.controller.abort(new DOMException('the service is shutting down', 'AbortError'));
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
    current.controller.abort(new StoreError('store.lease_lost', 'the job was cancelled or paused'));
    await current.ended;
  }

  isHealthy(): boolean {
    return !this.#loop.isStopping && this.#options.backend.isHealthy();
  }

  /** One job, from claim to terminal event (or back to the queue at shutdown). */
  async #see(job: ClaimedJob): Promise<void> {
    const { store, log } = this.#options;
    const controller = new AbortController();
    const ended = Promise.withResolvers<void>();
    this.#current = { job, controller, ended: ended.promise };
    const heartbeat = setInterval(() => {
      store.renewLease(job.id, job.fencingToken, LEASE_MS).catch((error: unknown) => controller.abort(error));
    }, HEARTBEAT_MS);
    const workDirectory = join(this.#options.workDirectory, job.id);
    try {
      refuseAfterTooManyAttempts(job);
      const staged = await this.#options.blobs.stageDirectory();
      try {
        const request = await this.#requestFor(job, workDirectory, staged);
        const result = await this.#train(job, request, controller);
        await this.#finish(job, result, staged);
      } finally {
        await this.#options.blobs.discardDirectory(staged);
      }
    } catch (error) {
      if (this.#loop.isStopping) {
        await store.releaseLease(job.id, job.fencingToken).catch(ignoreLostLease);
        return;
      }
      if (isLostLease(error) || (controller.signal.aborted && isLostLease(controller.signal.reason))) {
        // A paused job, or one that another worker of this folder has, needs its snapshots.
        const now = await store.getJob(job.id);
        log(
          `job ${job.id}: left in the state ${now === null ? 'deleted' : now.pausedAt === null ? now.status : 'paused'}`,
        );
        if (now !== null && now.finishedAt === null) return;
      } else {
        await this.#fail(job, error);
      }
    } finally {
      clearInterval(heartbeat);
      this.#current = null;
      ended.resolve();
    }
    await rm(workDirectory, { recursive: true, force: true });
  }

  async #requestFor(job: ClaimedJob, workDirectory: string, outputDirectory: string): Promise<TrainingJobRequest> {
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
      workDirectory,
      outputDirectory,
      // The order of rows differs from step to step and is the same when a step is trained again.
      seed: job.start?.step ?? 0,
    };
  }

  /** Runs the job, again from its last snapshot when the host dies under it. */
  async #train(job: ClaimedJob, request: TrainingJobRequest, controller: AbortController): Promise<TrainingResult> {
    const { store, backend, log } = this.#options;
    let written: Promise<unknown> = Promise.resolve();
    let numFinishedSteps = 0;
    let numLosses = 0;
    const onEvent = (event: TrainerEvent) => {
      const line = startedLine(event, job);
      if (line !== null) log(line);
      if (event.kind === 'gradient_step' && event.index >= numFinishedSteps) {
        numFinishedSteps = event.index + 1;
        numLosses = 0;
      }
      written = written.then(() => store.appendEvent(job.id, job.fencingToken, wireEvent(event, job)));
      // A failed write ends the run; the rejection itself is awaited below.
      written.catch((error: unknown) => controller.abort(error));
    };
    for (;;) {
      try {
        const result = await backend.run(request, { signal: controller.signal, onEvent });
        await written;
        return result;
      } catch (error) {
        await written;
        if (controller.signal.aborted) throw controller.signal.reason;
        if (!(error instanceof TrainingRunError) || error.code !== 'trainer.host_lost') throw error;
        numLosses += 1;
        if (numLosses >= MAX_LOSSES_WITHOUT_PROGRESS) {
          throw new TrainingRunError({
            code: 'trainer.host_lost',
            message: `the trainer host died ${numLosses} times in a row on this job without finishing a gradient step: ${error.message}`,
          });
        }
        log(`job ${job.id}: ${error.message}; it goes on after gradient step ${numFinishedSteps}`);
      }
    }
  }

  async #finish(job: ClaimedJob, result: TrainingResult, staged: string): Promise<void> {
    const { store, blobs } = this.#options;
    const metrics = Object.fromEntries(Object.entries(result.metrics).map(([name, value]) => [`train/${name}`, value]));
    const data = endData(result);
    const artifactKey = result.digest === null ? null : `checkpoints/${randomUUID()}`;
    if (artifactKey !== null) await blobs.commitDirectory(staged, artifactKey);
    let finished;
    try {
      const outcome = { artifactKey, digest: result.digest, metrics, data };
      finished = await store.finishJobSucceeded(job.id, job.fencingToken, outcome);
    } catch (error) {
      if (artifactKey !== null) await blobs.removeDirectory(artifactKey);
      throw error;
    }
    await this.#removeDirectories(finished.artifactKeys);
  }

  async #fail(job: ClaimedJob, error: unknown): Promise<void> {
    const { store, log } = this.#options;
    const reason = error instanceof Error ? error : new Error(String(error));
    const code = 'code' in reason && typeof reason.code === 'string' ? reason.code : 'internal';
    log(`job ${job.id} failed (${code}): ${reason.message}`);
    try {
      const { artifactKeys } = await store.finishJobFailed(job.id, job.fencingToken, `${reason.message} (${code})`);
      await this.#removeDirectories(artifactKeys);
    } catch (failure) {
      ignoreLostLease(failure);
    }
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
  if (job.kind === 'sft') return { kind: 'sft', config: config as SftConfig };
  // A job that waited through an update lacks the settings that came with it.
  return { kind: 'rl', config: { ...resolveTrainingConfig({}), ...(config as TrainingConfig) } };
}

function refuseAfterTooManyAttempts(job: ClaimedJob): void {
  if (job.numAttempts <= MAX_ATTEMPTS) return;
  throw new TrainingRunError({
    code: 'trainer.host_lost',
    message: `the service went down ${job.numAttempts - 1} times while this job ran, without a gradient step in between`,
  });
}

function isLostLease(error: unknown): boolean {
  return error instanceof StoreError && error.code === 'store.lease_lost';
}

function ignoreLostLease(error: unknown): void {
  if (!isLostLease(error)) throw error;
}
