import { randomUUID } from 'node:crypto';

import { type Blobs, type ModelExport, type Store, StoreError } from '@trainyard/store';
import type { ExportFormat, ExportRequest, ExportResult, LoraConfig, MergedType } from '@trainyard/trainer';

import type { ExchangeBackend } from '../../hosts/embedded-exchange.ts';
import { clientFailure, JobFault } from '../../faults/http-faults.ts';
import { nameFile } from '../../data/remove-unless-named.ts';
import type { JobLease } from '../job-lease.ts';
import type { JobQueue } from '../job-machine.ts';

export interface ExportJobsOptions {
  readonly store: Store;
  readonly blobs: Blobs;
  readonly backend: ExchangeBackend;
  /** What is served: asked for each export, since its file is known only once the engine host is up. */
  readonly baseModel: () => { readonly id: string; readonly path: string };
  readonly log: (line: string) => void;
}

/**
 * Checkpoints on their way out. A claim is named by its number.
 *
 * The files are committed as a directory before the row says that it succeeded, so an export is whole or absent. One that a crash cut off
 * runs again.
 */
export class ExportJobs implements JobQueue<ModelExport> {
  readonly noun = 'export';
  readonly pollMs = 5_000;
  readonly maxAttempts = 3;
  readonly #options: ExportJobsOptions;

  constructor(options: ExportJobsOptions) {
    this.#options = options;
  }

  claim(workerId: string, leaseMs: number): Promise<ModelExport | null> {
    return this.#options.store.claimNextExport(workerId, leaseMs);
  }

  renew({ id, numAttempts }: ModelExport, leaseMs: number): Promise<void> {
    return this.#options.store.renewExport(id, numAttempts, leaseMs);
  }

  async isHeld({ id, numAttempts }: ModelExport): Promise<boolean> {
    const now = await this.#options.store.getExport(id);
    return now?.status === 'running' && now.numAttempts === numAttempts;
  }

  release({ id, numAttempts }: ModelExport): Promise<void> {
    return this.#options.store.releaseExport(id, numAttempts);
  }

  lostTooOften({ numAttempts }: ModelExport): Error {
    return new JobFault('trainer.host_lost', `the service went down ${numAttempts - 1} times while this export ran`);
  }

  async run(job: ModelExport, lease: JobLease): Promise<void> {
    const { blobs, backend } = this.#options;
    const staged = await blobs.stageDirectory();
    try {
      const request = await lease.insist(() => this.#requestFor(job, staged), isBusy);
      await this.#finish(job, await backend.exportCheckpoint(request, { signal: lease.signal }), staged, lease);
    } finally {
      await blobs.discardDirectory(staged);
    }
  }

  async fail(job: ModelExport, error: unknown): Promise<void> {
    const { store, blobs, log } = this.#options;
    const { code, message } = clientFailure(error);
    log(`export ${job.id} failed (${code}): ${error instanceof Error ? error.message : String(error)}`);
    const errorMessage = `${error instanceof StoreError ? 'the files cannot be kept' : message} (${code})`;
    const finished = await store.finishExport(job.id, job.numAttempts, { kind: 'failed', errorMessage });
    for (const key of finished?.artifactKeys ?? []) await blobs.removeDirectory(key);
  }

  /** Deleted, or taken over: nothing of it lies outside the store. */
  async leave(): Promise<boolean> {
    return false;
  }

  async clear(): Promise<void> {}

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

  async #finish(job: ModelExport, result: ExportResult, staged: string, lease: JobLease): Promise<void> {
    const { store, blobs, log } = this.#options;
    const artifactKey = `exports/${randomUUID()}`;
    await lease.insist(() => store.announceKey(artifactKey), isBusy);
    await blobs.commitDirectory(staged, artifactKey);
    const { files, parity } = result;
    const outcome = { kind: 'succeeded', artifactKey, files, parity } as const;
    const write = async () => ({ ended: await store.finishExport(job.id, job.numAttempts, outcome) });
    const file = { key: artifactKey, kind: 'directory' } as const;
    const named = await nameFile({ store, blobs, log }, file, write, (work) => lease.insist(work, isBusy));
    if (named === null) return;
    const finished = named.ended;
    // Null: it was deleted meanwhile.
    for (const key of finished?.artifactKeys ?? [artifactKey]) await blobs.removeDirectory(key);
  }
}

/** Files that cannot be kept are told at once: they are large, and who waits for them can ask again. */
function isBusy(error: unknown): boolean {
  return error instanceof StoreError && error.code === 'store.busy';
}
