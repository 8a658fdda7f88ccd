import { randomUUID } from 'node:crypto';

import { type Blobs, type ModelExport, type Store, StoreError } from '@trainyard/store';
import type { ExportFormat, ExportRequest, ExportResult, LoraConfig, MergedType } from '@trainyard/trainer';

import type { ExportQueue } from '../contract/backends.ts';
import type { ExchangeBackend } from '../hosts/embedded-exchange.ts';
import { clientFailure, JobFault } from '../faults/http-faults.ts';
import { JobLease } from '../jobs/job-lease.ts';
import { WorkLoop } from '../jobs/work-loop.ts';
import { nameFile } from '../data/remove-unless-named.ts';

/** An export that was in flight at so many crashes of the whole service is taken to be the reason. */
const MAX_ATTEMPTS = 3;
/** A worker that misses two heartbeats is taken for dead. */
const LEASE_MS = 30_000;
const HEARTBEAT_MS = 10_000;
/** Another replica may have queued an export: looked for this often when nobody notifies. */
const POLL_MS = 5_000;

export interface ExportWorkerOptions {
  readonly store: Store;
  readonly blobs: Blobs;
  readonly backend: ExchangeBackend;
  /** What is served: asked for each export, since its file is known only once the engine host is up. */
  readonly baseModel: () => { readonly id: string; readonly path: string };
  readonly log: (line: string) => void;
}

/**
 * Runs queued exports one after the other and sees each through to its end.
 *
 * The files are committed as a directory before the row says that it succeeded, so an export is whole or absent. One that a crash cut off
 * runs again at the next start.
 */
export class ExportWorker implements ExportQueue {
  readonly #options: ExportWorkerOptions;
  #current: { job: ModelExport; lease: JobLease; ended: Promise<void> } | null = null;
  readonly #loop: WorkLoop;

  constructor(options: ExportWorkerOptions) {
    this.#options = options;
    const { store, log } = options;
    this.#loop = new WorkLoop({
      name: 'export worker',
      pollMs: POLL_MS,
      workOnce: async () => {
        const job = await store.claimNextExport(store.instanceId, LEASE_MS);
        if (job !== null) await this.#see(job);
        return job !== null;
      },
      log,
    });
  }

  start(): void {
    this.#loop.start();
  }

  /** Stops after putting the export in flight back into the queue. */
  async stop(): Promise<void> {
    const stopped = this.#loop.stop();
    this.#current?.lease.abort(new DOMException('the service is shutting down', 'AbortError'));
    await stopped;
  }

  notify(): void {
    this.#loop.notify();
  }

  async cancelExport(exportId: string): Promise<void> {
    await this.#cancelWhere(({ id }) => id === exportId);
  }

  async cancelModel(modelId: string): Promise<void> {
    await this.#cancelWhere((job) => job.modelId === modelId);
  }

  async #cancelWhere(isMeant: (job: ModelExport) => boolean): Promise<void> {
    const current = this.#current;
    if (current === null || !isMeant(current.job)) return;
    current.lease.abort(new DOMException('the export was deleted', 'AbortError'));
    await current.ended;
  }

  /** One export, from claim to its end (or back to the queue at shutdown). */
  async #see(job: ModelExport): Promise<void> {
    const { store, log } = this.#options;
    const lease = new JobLease({
      name: `export ${job.id}`,
      renew: (ms) => store.renewExport(job.id, job.numAttempts, ms),
      isHeld: async () => {
        const now = await store.getExport(job.id);
        return now?.status === 'running' && now.numAttempts === job.numAttempts;
      },
      leaseMs: LEASE_MS,
      heartbeatMs: HEARTBEAT_MS,
      log,
    });
    const ended = Promise.withResolvers<void>();
    this.#current = { job, lease, ended: ended.promise };
    try {
      await this.#export(job, lease.signal);
    } catch (error) {
      // Deleted or put back: either way it has no end here.
      if (!lease.signal.aborted) await this.#fail(job, error);
      else if (this.#loop.isStopping) await store.releaseExport(job.id, job.numAttempts);
    } finally {
      lease.stop();
      this.#current = null;
      ended.resolve();
    }
  }

  async #export(job: ModelExport, signal: AbortSignal): Promise<void> {
    const { blobs, backend } = this.#options;
    if (job.numAttempts > MAX_ATTEMPTS) {
      throw new JobFault(
        'trainer.host_lost',
        `the service went down ${job.numAttempts - 1} times while this export ran`,
      );
    }
    const staged = await blobs.stageDirectory();
    try {
      const request = await this.#whileBusy(job, () => this.#requestFor(job, staged));
      await this.#finish(job, await backend.exportCheckpoint(request, { signal }), staged);
    } finally {
      await blobs.discardDirectory(staged);
    }
  }

  async #requestFor(job: ModelExport, outputDirectory: string): Promise<ExportRequest> {
    const { store, blobs, baseModel } = this.#options;
    const { id: baseModelId, path: modelPath } = baseModel();
    const model = await store.getModel(job.modelId);
    if (model === null || model.baseModel !== baseModelId) {
      throw new JobFault(
        'trainer.config_invalid',
        `the model is based on ${model?.baseModel}, and ${baseModelId} is served now`,
      );
    }
    const { sourceArtifactKey } = job;
    const checkpointDirectory = sourceArtifactKey === null ? null : await blobs.localDirectory(sourceArtifactKey);
    if (sourceArtifactKey !== null && checkpointDirectory === null) {
      throw new JobFault('trainer.checkpoint_unreadable', `the files of step ${job.step} are gone`);
    }
    return {
      modelPath,
      baseModelId,
      lora: model.lora as LoraConfig,
      checkpointDirectory,
      format: job.format as ExportFormat,
      type: job.dtype as MergedType,
      outputDirectory,
    };
  }

  async #finish(job: ModelExport, result: ExportResult, staged: string): Promise<void> {
    const { store, blobs, log } = this.#options;
    const artifactKey = `exports/${randomUUID()}`;
    await this.#whileBusy(job, () => store.announceKey(artifactKey));
    await blobs.commitDirectory(staged, artifactKey);
    const { files, parity } = result;
    const outcome = { kind: 'succeeded', artifactKey, files, parity } as const;
    const write = async () => ({ ended: await store.finishExport(job.id, job.numAttempts, outcome) });
    const named = await nameFile({ store, blobs, log }, { key: artifactKey, kind: 'directory' }, write, (work) =>
      this.#whileBusy(job, work),
    );
    if (named === null) return;
    const finished = named.ended;
    // Null: it was deleted meanwhile.
    for (const key of finished?.artifactKeys ?? [artifactKey]) await blobs.removeDirectory(key);
  }

  /** Does `work` again while another process has the store; not once the export is deleted or the service stops. */
  async #whileBusy<Result>(job: ModelExport, work: () => Promise<Result>): Promise<Result> {
    const signal = this.#current?.lease.signal;
    for (;;) {
      signal?.throwIfAborted();
      try {
        return await work();
      } catch (error) {
        if (!(error instanceof StoreError) || error.code !== 'store.busy') throw error;
        this.#options.log(`export ${job.id} waits: ${error.message}`);
      }
      await this.#loop.pauseAfterFailure();
    }
  }

  async #fail(job: ModelExport, error: unknown): Promise<void> {
    const { store, blobs, log } = this.#options;
    const { code, message } = clientFailure(error);
    log(`export ${job.id} failed (${code}): ${error instanceof Error ? error.message : String(error)}`);
    const errorMessage = `${error instanceof StoreError ? 'the files cannot be kept' : message} (${code})`;
    for (;;) {
      try {
        const finished = await store.finishExport(job.id, job.numAttempts, { kind: 'failed', errorMessage });
        for (const key of finished?.artifactKeys ?? []) await blobs.removeDirectory(key);
        return;
      } catch (failure) {
        // Nobody else ends it, and its reader waits: a full disk may have room again.
        log(`export ${job.id}: its failure cannot be recorded yet: ${(failure as Error).message}`);
        if (this.#loop.isStopping) return;
        await this.#loop.pauseAfterFailure();
      }
    }
  }
}
