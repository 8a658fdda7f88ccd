import { type Blobs, type ClaimedJob, type ExportJob, type Store, StoreError } from '@trainyard/store';
import type { ExportFormat, ExportRequest, ExportResult, LoraConfig, MergedType } from '@trainyard/trainer';

import type { TransferBackend } from '../../hosts/transfers/embedded-transfers.ts';
import { clientFailure, JobFault } from '../../seams/faults/http-faults.ts';
import { nameFile } from '../../seams/data/remove-unless-named.ts';
import type { Log } from '../../seams/logging/log.ts';
import { aboutJob } from '../about-job.ts';
import { baseModelPath, type BaseModelPaths } from '../../seams/contract/base-model-path.ts';
import { isPassingButFull } from '../../seams/faults/passing-fault.ts';
import type { ModelCheck } from '../../seams/integrity/model-check.ts';
import type { JobLease } from '../job-lease.ts';
import type { JobWork } from '../job-machine.ts';
import { isThere } from '../job-weights.ts';
import { keepDirectory } from '../keep-directory.ts';
import { MAX_SERVICE_LOSSES, retryLostHost } from '../retry-lost-host.ts';

type HeldExport = ClaimedJob<ExportJob>;

export interface ExportJobsOptions {
  readonly store: Store;
  readonly blobs: Blobs;
  readonly backend: TransferBackend;
  readonly modelPaths: BaseModelPaths;
  /** Checks the files of base models. Default: none are checked. */
  readonly files?: ModelCheck;
  readonly log: Log;
}

/**
 * Export jobs.
 * The files are committed as a directory before the row reports success, so an export is whole or absent. It
 * is rerun after a crash of its host or of the service.
 */
export class ExportJobs implements JobWork<'export'> {
  readonly kinds = ['export'] as const;
  readonly noun = 'export';
  readonly pollMs = 5_000;
  readonly maxAttempts = MAX_SERVICE_LOSSES;
  readonly #options: ExportJobsOptions;

  constructor(options: ExportJobsOptions) {
    this.#options = options;
  }

  lostTooOften({ numAttempts }: HeldExport): Error {
    return new JobFault('trainer.host_lost', `the service stopped ${numAttempts - 1} times while this export ran`);
  }

  async run(job: HeldExport, lease: JobLease): Promise<void> {
    const { log } = this.#options;
    await retryLostHost(() => this.#attempt(job, lease), { name: `export ${job.id}`, lease, log });
  }

  async #attempt(job: HeldExport, lease: JobLease): Promise<void> {
    const { blobs, backend } = this.#options;
    const staged = await lease.insist(() => blobs.stageDirectory(), isPassingButFull);
    try {
      const request = await lease.insist(() => this.#requestFor(job, staged), isPassingButFull);
      await this.#finish(job, await backend.exportCheckpoint(request, { signal: lease.signal }), staged, lease);
    } finally {
      await blobs.discardDirectory(staged);
    }
  }

  async fail(job: HeldExport, error: unknown): Promise<void> {
    const { store, blobs, log } = this.#options;
    const { code, message } = clientFailure(error);
    const reason = error instanceof Error ? error.message : String(error);
    log(`export ${job.id} failed (${code}): ${reason}`, { ...aboutJob(job), level: 'error' });
    const errorMessage = `${error instanceof StoreError ? 'the files cannot be kept' : message} (${code})`;
    const { directoryKeys } = await store.jobs.fail(job.id, job.fencingToken, errorMessage);
    for (const key of directoryKeys) await blobs.removeDirectory(key);
  }

  /** Deleted, or taken over: it has nothing outside the store. */
  async leave(): Promise<boolean> {
    return false;
  }

  async clear(): Promise<void> {}

  async #requestFor(job: HeldExport, outputDirectory: string): Promise<ExportRequest> {
    const { store, blobs, modelPaths, log } = this.#options;
    const [wanted, model] = await Promise.all([store.exports.get(job.id), store.models.get(job.modelId)]);
    if (wanted === null) throw new StoreError('store.lease_lost', 'the export was deleted');
    if (model === null) throw new StoreError('store.lease_lost', 'the model of this export was deleted');
    const modelPath = baseModelPath(modelPaths, model.baseModel, 'the model');
    await this.#options.files?.check(model.baseModel);
    const { format, dtype, step, sourceDirectoryKey: key, sourceDigest: digest } = wanted;
    if (key !== null && !(await isThere({ blobs, log }, { key, digest, model, step }))) {
      throw new JobFault('trainer.checkpoint_unreadable', `the files of step ${step} are missing`);
    }
    const checkpointDirectory = key === null ? null : await blobs.localDirectory(key);
    return {
      modelPath,
      baseModelId: model.baseModel,
      lora: model.lora as LoraConfig,
      checkpointDirectory,
      format: format as ExportFormat,
      type: dtype as MergedType,
      outputDirectory,
    };
  }

  async #finish(job: HeldExport, result: ExportResult, staged: string, lease: JobLease): Promise<void> {
    const { store, blobs, log } = this.#options;
    const directoryKey = await keepDirectory({ store, blobs, lease }, staged, 'exports/');
    const { files, parity } = result;
    const write = () => store.exports.finish(job.id, job.fencingToken, { directoryKey, files, parity });
    const file = { key: directoryKey, kind: 'directory' } as const;
    const finished = await nameFile({ store, blobs, log }, file, write, (work) => lease.insist(work, isPassingButFull));
    // Null: it is committed, although the store reported an error.
    for (const key of finished?.directoryKeys ?? []) await blobs.removeDirectory(key);
  }
}
