import { randomUUID } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';

import type { FixedScores } from '@trainyard/backend';
import {
  type Blobs,
  type ClaimedJob,
  type Model,
  type NewEvent,
  type Store,
  StoreError,
  TRAINING_JOB_KINDS,
  type TrainingJobConfig as Objective,
} from '@trainyard/store';
import type { JobWarning, TrainerEvent, TrainingResult } from '@trainyard/trainer';

import { TrainingRunError, type TrainingBackend } from '../../hosts/training/embedded-training.ts';
import type { TrainingJobConfig, TrainingJobRequest } from '../../hosts/process/messages.ts';
import { unlessAborted } from '../../seams/streams/unless-aborted.ts';
import type { PublishStep } from '../../seams/contract/backends.ts';
import { clientFailure, JobFault } from '../../seams/faults/http-faults.ts';
import { isLoadRefusal, refusalForClients } from '../../seams/faults/load-refusal.ts';
import type { JobMetrics } from '../../seams/metrics/job-metrics.ts';
import { recordSizes } from '../checkpoints/checkpoint-sizes.ts';
import { manifestOf } from '../../seams/data/checkpoint-manifest.ts';
import { nameFile } from '../../seams/data/remove-unless-named.ts';
import { type Log, logOf } from '../../seams/logging/log.ts';
import type { JobTrace } from '../../seams/tracing/job-trace.ts';
import type { Tracing } from '../../seams/tracing/tracing.ts';
import { aboutJob } from '../about-job.ts';
import { baseModelPath, type BaseModelPaths } from '../../seams/contract/base-model-path.ts';
import { endData, ownMetrics, startedLine, trainMetrics, wireEvent, wireEvents } from '../job-events.ts';
import type { ModelCheck } from '../../seams/integrity/model-check.ts';
import type { JobLease } from '../job-lease.ts';
import { SnapshotCopies } from '../snapshot-copies.ts';
import { removeEnded } from '../snapshot-folders.ts';
import type { JobWork } from '../job-machine.ts';
import { jobWeights, optimizerWarning } from '../job-weights.ts';
import { retryOf } from '../../seams/faults/retry-of.ts';
import { rlJob } from './rl.ts';
import { sftJob } from './sft.ts';

/** Time until the next try after a full disk: each repeats the gradient step that could not be kept. */
const DISK_PAUSE_MS = 10_000;
/** A job whose host ends this often in a row without finishing a gradient step will not finish. */
const MAX_LOSSES_WITHOUT_PROGRESS = 3;
/** Time that a job waits at its end for engines and servers to load its step: a vLLM server takes seconds. */
const PUBLISH_MS = 60_000;
/** Time that an ending service spends on the copy of a last snapshot. */
const LAST_COPY_MS = 8_000;
const DEFAULT_MAX_TRACE_BYTES = 64_000_000;

export interface TrainingJobsOptions {
  readonly store: Store;
  readonly blobs: Blobs;
  readonly backend: TrainingBackend;
  readonly modelPaths: BaseModelPaths;
  /** Checks the files of base models. Default: none are checked. */
  readonly files?: ModelCheck;
  /** folder of the snapshots of running jobs */
  readonly workDirectory: string;
  /** Maximum bytes of training tokens kept per model; the oldest are dropped first. 0: none. Default 64 MB. */
  readonly maxTraceBytes?: number;
  /**
   * Gradient steps between two copies of a job's snapshots in the blobs; 0 (default): none, and the job
   * continues only on the machine with its work folder.
   */
  readonly snapshotSteps?: number;
  /** Remote trainer, for its base model. Default: this machine trains all of them. */
  readonly remoteTrainer?: RemoteTrainer | null;
  /**
   * Loads a new step in all samplers before its job ends. Default: the first request that names it loads it.
   */
  readonly publish?: PublishStep;
  /** Traces each job. Default null: no tracing. */
  readonly tracing?: Tracing | null;
  /** Counts the progress of jobs. Default: none. */
  readonly metrics?: JobMetrics;
  readonly log: Log;
}

export interface RemoteTrainer {
  readonly baseModel: string;
  /** Scores of fixed tokens by that model, to compare the trainer with. */
  readonly scores: () => Promise<FixedScores>;
}

/**
 * Training jobs of every objective.
 * This order makes a crash harmless: snapshot on disk → `gradient_step` event; the job's version committed →
 * one transaction with the checkpoint row, `training_ended` and the status.
 */
export class TrainingJobs implements JobWork<Objective> {
  readonly kinds = TRAINING_JOB_KINDS;
  readonly noun = 'job';
  readonly pollMs = 1_000;
  /** Attempts without a finished gradient step in between: each one resets the count. */
  readonly maxAttempts = 5;
  readonly #options: TrainingJobsOptions;
  readonly #maxTraceBytes: number;

  constructor(options: TrainingJobsOptions) {
    this.#options = options;
    this.#maxTraceBytes = options.maxTraceBytes ?? DEFAULT_MAX_TRACE_BYTES;
  }

  lostTooOften({ numAttempts }: ClaimedJob): Error {
    return new TrainingRunError({
      code: 'trainer.host_lost',
      retry: 'never',
      message: `the service stopped ${numAttempts - 1} times while this job ran, without a gradient step in between`,
    });
  }

  /** The learner continues from the last snapshot, which is in the work folder while the job lives. */
  async run(job: ClaimedJob, lease: JobLease, trace: JobTrace | null): Promise<void> {
    const log = this.#logOf(job);
    log(`job ${job.id}: starts, claim ${job.fencingToken}`);
    const { request, warning } = await lease.insist(() => this.#requestFor(job));
    await lease.insist(() => this.#options.store.files.announce(request.output));
    const result = await this.#train(job, request, { lease, trace, warning });
    const step = await this.#finish(job, result, request.output, lease);
    log(`job ${job.id}: succeeded${step === null ? '' : `, step ${step}`}`);
    if (step !== null) trace?.checkpointCommitted(step);
    this.#options.metrics?.end(job, 'succeeded');
    if (result.digest !== null)
      await recordSizes(this.#options, request.output).catch((error: unknown) =>
        log(`the sizes of ${request.output} will be measured later: ${String(error)}`),
      );
  }

  async fail(job: ClaimedJob, error: unknown): Promise<void> {
    const { store } = this.#options;
    const { code, message } = clientFailure(error);
    const reason = error instanceof Error ? error.message : String(error);
    this.#logOf(job)(`job ${job.id} failed (${code}): ${reason}`, { level: 'error' });
    const { directoryKeys } = await store.jobs.fail(job.id, job.fencingToken, `${message} (${code})`);
    this.#options.metrics?.end(job, 'failed');
    await this.#removeDirectories(directoryKeys);
  }

  async leave(job: ClaimedJob): Promise<boolean> {
    const { store, metrics } = this.#options;
    const now = await store.jobs.get(job.id);
    this.#logOf(job)(
      `job ${job.id}: left with the status ${now === null ? 'deleted' : now.pausedAt === null ? now.status : 'paused'}`,
    );
    const isLive = now !== null && now.finishedAt === null;
    if (!isLive) metrics?.end(job, 'stopped');
    return isLive;
  }

  async clear({ id }: ClaimedJob): Promise<void> {
    const { store, workDirectory, log } = this.#options;
    await rm(join(workDirectory, id), { recursive: true, force: true });
    // Jobs that this machine lost, and that ended elsewhere since.
    await removeEnded(store, workDirectory).catch((error: unknown) => log(`old snapshots are kept: ${String(error)}`));
  }

  async #requestFor(job: ClaimedJob): Promise<{ request: TrainingJobRequest; warning: JobWarning | null }> {
    const { store, blobs, modelPaths } = this.#options;
    const model: Model | null = await store.models.get(job.modelId);
    if (model === null) throw new StoreError('store.lease_lost', 'the model of this job was deleted');
    await this.#options.files?.check(model.baseModel);
    const weights = await jobWeights({ store, blobs, log: this.#logOf(job) }, job, model);
    const request: TrainingJobRequest = {
      ...trainingKindOf(job),
      manifest: manifestOf(model, job, store.clock.now()),
      jobId: job.id,
      modelPath: baseModelPath(modelPaths, model.baseModel, 'the model'),
      dataKey: job.dataKey,
      lora: model.lora as TrainingJobRequest['lora'],
      ...weights,
      snapshots: job.id,
      output: `checkpoints/${randomUUID()}`,
      // The order of rows differs between steps and is the same when a step is repeated.
      seed: job.start?.step ?? 0,
      snapshot: job.snapshot,
      keepsTraces: job.kind === 'rl' && this.#maxTraceBytes > 0,
      baseScores: await this.#baseScores(model),
    };
    return { request, warning: optimizerWarning(job, model, weights) };
  }

  /**
   * @throws {JobFault} `trainer.config_invalid` for a model with another base model than the remote trainer's
   */
  async #baseScores({ baseModel }: Model): Promise<FixedScores | null> {
    const { remoteTrainer = null } = this.#options;
    if (remoteTrainer === null) return null;
    if (baseModel === remoteTrainer.baseModel) return await remoteTrainer.scores();
    throw new JobFault(
      'trainer.config_invalid',
      `the base model of this model is ${baseModel}, but the trainer of this service has ${remoteTrainer.baseModel}: create the model with that one`,
    );
  }

  /** Trains and publishes. If the job fails after its version was committed, removes the version. */
  async #train(job: ClaimedJob, request: TrainingJobRequest, held: HeldBy): Promise<TrainingResult> {
    try {
      const result = await this.#run(job, request, held);
      if (result.digest !== null) await this.#publish(job, request, { digest: result.digest, lease: held.lease });
      return result;
    } catch (error) {
      await this.#removeDirectories([request.output]);
      throw error;
    }
  }

  /** Runs the job, and repeats it from its last snapshot if its learner is lost or the disk is full. */
  async #run(job: ClaimedJob, request: TrainingJobRequest, { lease, trace, warning }: HeldBy): Promise<TrainingResult> {
    const { store, blobs, backend, remoteTrainer = null, snapshotSteps = 0 } = this.#options;
    const log = this.#logOf(job);
    const copies = new SnapshotCopies({
      store,
      blobs,
      job,
      // The state of a remote trainer's snapshot is on its server, and is replaced by the next snapshot.
      everySteps: remoteTrainer === null ? snapshotSteps : 0,
      copy: (directoryKey) => backend.copySnapshot(request.snapshots, directoryKey),
      log,
    });
    let numSteps = 0;
    let written: Promise<unknown> = Promise.resolve();
    let numFinishedSteps = 0;
    let numLosses = 0;
    let isToldAway = false;
    const onEvent = (event: TrainerEvent) => {
      const line = startedLine(event, job);
      if (line !== null) log(line, { level: 'warn' });
      lease.clearWait();
      if (event.kind === 'training_started') numSteps = event.numGradientSteps;
      if (event.kind === 'gradient_step' && event.index >= numFinishedSteps) {
        numFinishedSteps = event.index + 1;
        numLosses = 0;
      }
      const [row, ...warnings] = wireEvents(event, job);
      if (event.kind === 'training_started' && warning !== null) {
        log(startedLine({ kind: 'warning', warning }, job) ?? '', { level: 'warn' });
        warnings.push(wireEvent({ kind: 'warning', warning }, job));
      }
      const traces = tracesOf(event, this.#maxTraceBytes);
      for (const one of [row, ...warnings]) this.#options.metrics?.see(job, one);
      if (event.kind === 'gradient_step' && event.taken !== undefined) {
        this.#options.metrics?.stepTaken(job, event.taken, event.metrics);
        trace?.stepTaken(event.index, event.taken, event.metrics);
      }
      written = written.then(() =>
        lease.insist(() => store.jobs.appendEvent(job.id, job.fencingToken, { ...row, ...traces })),
      );
      for (const warning of warnings)
        written = written.then(() => lease.insist(() => store.jobs.appendEvent(job.id, job.fencingToken, warning)));
      if (event.kind === 'gradient_step') {
        const numStored = event.index + 1;
        written = written.then(() => copies.stepStored(numStored, numStored === numSteps));
      }
      // A failed write ends the run; the rejection itself is awaited below.
      written.catch((error: unknown) => lease.abort(error));
    };
    try {
      for (;;) {
        try {
          const result = await backend.run(request, { signal: lease.signal, onEvent });
          await written;
          return result;
        } catch (error) {
          await written;
          if (isGivenBack(lease.signal)) await copies.last(LAST_COPY_MS);
          lease.signal.throwIfAborted();
          const retry = error instanceof TrainingRunError ? error.retry : retryOf(error);
          if (retry === 'never') throw error;
          const { message } = error as Error;
          if (retry === 'wait') {
            // An event, so that every process reports it.
            const unreachable: JobWarning | null = isToldAway ? null : unreachableWarning(error, Date.now());
            if (unreachable !== null) {
              isToldAway = true;
              const row = wireEvent({ kind: 'warning', warning: unreachable }, job);
              await lease.insist(() => store.jobs.appendEvent(job.id, job.fencingToken, row));
            }
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
          log(`job ${job.id}: ${message}; it continues after gradient step ${numFinishedSteps}`, { level: 'warn' });
        }
      }
    } finally {
      copies.end();
    }
  }

  /** Loads the new step in its samplers. No failure of theirs fails the job, and its end does not wait for them. */
  async #publish(
    job: ClaimedJob,
    { output, manifest }: TrainingJobRequest,
    { digest, lease }: { digest: string; lease: JobLease },
  ): Promise<void> {
    const { store, publish } = this.#options;
    if (publish === undefined || manifest === undefined) return;
    const log = this.#logOf(job);
    const limit = AbortSignal.any([lease.signal, AbortSignal.timeout(PUBLISH_MS)]);
    let refusal: string | null;
    try {
      const step = { digest, directoryKey: output };
      refusal = await unlessAborted(publish(manifest.base_model, step, limit), limit);
    } catch (error) {
      if (isGivenBack(lease.signal)) return;
      lease.signal.throwIfAborted();
      const { message } = error as Error;
      if (!limit.aborted && !isLoadRefusal(error))
        return log(`job ${job.id}: its step is loaded by its first request: ${message}`);
      refusal = limit.aborted ? `it was not loaded within ${PUBLISH_MS / 1000} s` : message;
    }
    if (refusal === null) return;
    log(`job ${job.id}: its step could not be loaded: ${refusal}`, { level: 'warn' });
    const row = wireEvent({ kind: 'warning', warning: adapterNotLoaded(refusalForClients(refusal)) }, job);
    this.#options.metrics?.see(job, row);
    await insistToTheEnd(lease, () => store.jobs.appendEvent(job.id, job.fencingToken, row));
  }

  /** @returns the step of the checkpoint; null if it is committed although the store reported an error */
  async #finish(job: ClaimedJob, result: TrainingResult, key: string, lease: JobLease): Promise<number | null> {
    const { store, blobs } = this.#options;
    const log = this.#logOf(job);
    const { metrics, rolloutMetrics } = trainMetrics(result.metrics);
    const outcome = {
      digest: result.digest,
      metrics,
      // Otherwise the events of gradient steps have added them.
      ...(result.numGradientSteps === 0 ? { rolloutMetrics: { ...rolloutMetrics, ...ownMetrics(job) } } : {}),
      data: endData(result),
    };
    const finish = (directoryKey: string | null) =>
      store.jobs.succeed(job.id, job.fencingToken, { directoryKey, ...outcome });
    const insist = <Result>(work: () => Promise<Result>) => insistToTheEnd(lease, work);
    if (result.digest === null) {
      const { directoryKeys, checkpoint } = await insist(() => finish(null));
      await this.#removeDirectories(directoryKeys);
      return checkpoint.step;
    }
    const file = { key, kind: 'directory' } as const;
    const finished = await nameFile({ store, blobs, log }, file, () => finish(key), insist);
    // Null: it is committed, although the store reported an error. Its leftovers are removed at the next
    // start.
    await this.#removeDirectories(finished?.directoryKeys ?? []);
    return finished?.checkpoint.step ?? null;
  }

  #logOf(job: ClaimedJob): Log {
    return logOf(this.#options.log, aboutJob(job, this.#options.tracing));
  }

  /** Removes directories of an ended job. One that cannot be removed is only garbage until the next start. */
  async #removeDirectories(directoryKeys: readonly string[]): Promise<void> {
    for (const key of directoryKeys) {
      await this.#options.blobs
        .removeDirectory(key)
        .catch((error: unknown) => this.#options.log(`the directory ${key} is left on disk: ${String(error)}`));
    }
  }
}

function adapterNotLoaded(reason: string): JobWarning {
  return {
    code: 'adapter_not_loaded',
    message: `The step of this job is saved, but some sampling servers have not loaded it: ${reason}`,
    value: 1,
    suggestion:
      'The servers are asked again with each request to the model. Fix the servers according to the reason; the step needs no new training.',
  };
}

/** @param since milliseconds since the epoch @returns null if the job waits for something else */
function unreachableWarning(error: unknown, since: number): JobWarning | null {
  if (!(error instanceof TrainingRunError) || error.code !== 'trainer.remote_unavailable') return null;
  return {
    code: 'trainer_unreachable',
    message: `the trainer is unreachable since ${new Date(since).toISOString()}; the job waits: ${error.message}`,
    value: Math.round(since / 1000),
    suggestion: 'start the server of `--trainer-url`, or free a slot there; the job then continues by itself',
  };
}

interface HeldBy {
  readonly lease: JobLease;
  readonly trace: JobTrace | null;
  readonly warning: JobWarning | null;
}

/** The service ends and gives the job back; the hold lasts until then. */
function isGivenBack({ aborted, reason }: AbortSignal): boolean {
  return aborted && reason instanceof DOMException;
}

/**
 * Runs `work` like `lease.insist`. If the service ends meanwhile, tries once more, so that a trained step is
 * kept: the fencing token refuses the write of a worker that lost its job.
 */
async function insistToTheEnd<Result>(lease: JobLease, work: () => Promise<Result>): Promise<Result> {
  try {
    return await lease.insist(work);
  } catch (error) {
    if (!isGivenBack(lease.signal) || error !== lease.signal.reason) throw error;
    return await work();
  }
}

/** Tokens of a gradient step. */
function tracesOf(event: TrainerEvent, maxBytes: number): Pick<NewEvent, 'traces'> {
  if (event.kind !== 'gradient_step' || event.traces === undefined) return {};
  return { traces: { gradientStep: event.index, traces: event.traces, maxBytes } };
}

function trainingKindOf(job: ClaimedJob): TrainingJobConfig {
  const config = job.config['resolved'] as Record<string, unknown>;
  switch (job.kind) {
    case 'rl':
      return rlJob(config);
    case 'sft':
      return sftJob(config, job.config['source']);
    default:
      return job.kind satisfies never;
  }
}
