import type { Blobs, Store, TrainerLimits } from '@trainyard/store';
import { TINKER_PROFILES } from '@trainyard/tinker/profiles';

import type { ComputeShares } from '../../hosts/computing/compute-arbiter.ts';
import { nicenessOfShare } from '../../hosts/computing/niceness.ts';
import type { AdapterImporter, ExportQueue, PublishStep, TrainingQueue } from '../../seams/contract/backends.ts';
import { dataPaths } from '../../seams/data/data-directory.ts';
import { blobSecrets } from '../../hosts/process/child-environment.ts';
import { EmbeddedTraining } from '../../hosts/training/embedded-training.ts';
import { EmbeddedTransfers, type TransferBackend } from '../../hosts/transfers/embedded-transfers.ts';
import type { BaseScores } from '../../hosts/pool/base-scores.ts';
import type { BaseModelPaths } from '../../seams/contract/base-model-path.ts';
import { ExportWorker } from '../../jobs/kinds/export-worker.ts';
import { ImportWorker } from '../../jobs/kinds/import-worker.ts';
import type { ModelCheck } from '../../seams/integrity/model-check.ts';
import { TrainingWorker } from '../../jobs/kinds/training-worker.ts';
import type { Log } from '../../seams/logging/log.ts';
import type { Tracing } from '../../seams/tracing/tracing.ts';
import type { ServiceMetrics } from '../../seams/metrics/service-metrics.ts';
import type { ServiceConfig } from '../settings/config.ts';
import { sharesCores } from '../../seams/contract/role.ts';
import { remoteTrainerOptions } from './remote-trainer.ts';

/** Workers for jobs, as HTTP uses them: in this process, or in others on the same database. */
export interface JobWorkers {
  readonly training: TrainingQueue;
  readonly exports: ExportQueue;
  readonly imports: AdapterImporter;
  run(): void;
  /** Checks for work now, after a change in the database. */
  notify(): void;
  /** Takes jobs of a further base model. */
  addBaseModel(id: string): void;
  /** Takes no more jobs, and returns current ones to the queue. */
  stop(): Promise<void>;
  close(): Promise<void>;
}

interface JobWorkerParts {
  readonly store: Store;
  readonly blobs: Blobs;
  readonly modelPaths: BaseModelPaths;
  /** Checks the files of base models. Default: none are checked. */
  readonly files?: ModelCheck;
  readonly log: Log;
}

/** Workers of every kind of job, in this process and its own hosts, which it starts. */
export async function openJobWorkers(
  config: ServiceConfig,
  parts: JobWorkerParts & {
    readonly arbiter: ComputeShares;
    readonly scores: BaseScores;
    readonly metrics: Pick<ServiceMetrics, 'jobs' | 'data'>;
    readonly publish?: PublishStep;
    /** Default null: no tracing. */
    readonly tracing?: Tracing | null;
  },
): Promise<JobWorkers> {
  const { store, blobs, modelPaths, files, arbiter, scores, metrics, publish, tracing = null, log } = parts;
  const { numThreads, isDeterministic, precision, oneDnnPath, engineShare, models, weights } = config;
  const checked = files === undefined ? {} : { files };
  const { work: workDirectory } = dataPaths(config.dataDirectory);
  // A process that only works on jobs shares its cores with no engine.
  const lower = { share: 1 - engineShare, niceness: nicenessOfShare(1 - engineShare) };
  const computing = { arbiter, log, ...(sharesCores(config.role) ? lower : { share: 1, niceness: 0 }) };
  const remote = remoteTrainerOptions(config);
  const backend = new EmbeddedTraining({
    host: {
      blobs: blobs.location,
      workDirectory,
      numThreads,
      // The same rendering of prompts as for sampling.
      allowsControlTokens: config.specialTokens === 'control',
      isDeterministic,
      oneDnnPath: precision === 'bf16' ? oneDnnPath : null,
      weights,
      remote,
    },
    remoteKey: config.trainer?.apiKey ?? null,
    secrets: blobSecrets(blobs.location),
    onBucketRequest: metrics.data.sawRequest,
    ...computing,
  });
  const [first] = models;
  // Grows with `addBaseModel`; every claim reads it.
  const baseModels = models.map(({ id }) => id);
  const isRemote = remote !== null && first !== undefined;
  const training = new TrainingWorker({
    store,
    blobs,
    backend,
    modelPaths,
    ...checked,
    // A remote trainer has one base model.
    baseModels: isRemote ? [first.id] : baseModels,
    workDirectory,
    maxTraceBytes: config.tokenTraceMegabytes * 1_000_000,
    snapshotSteps: config.snapshotSteps,
    limits: () => (isRemote ? limitsOf(config, backend.remoteMaxRank) : null),
    remoteTrainer: isRemote ? { baseModel: first.id, scores: () => scores.of(first.path) } : null,
    metrics: metrics.jobs,
    ...(publish && { publish }),
    tracing,
    log,
  });
  const transfers = new EmbeddedTransfers({ host: { numThreads }, ...computing });
  const exports = new ExportWorker({ store, blobs, backend: transfers, modelPaths, ...checked, baseModels, log });
  const imports = new ImportWorker({ store, blobs, backend: transfers, modelPaths, ...checked, baseModels, log });
  try {
    await backend.start();
    for (const line of await backend.contactRemote()) log(line);
  } catch (error) {
    await backend.close();
    throw error;
  }
  return {
    ...workersTogether({ training, exports, imports }),
    addBaseModel: (id) => void baseModels.push(id),
    close: () => backend.close(),
  };
}

/** Limits of a remote trainer, from its profile and its reported rank. */
function limitsOf({ trainer }: Pick<ServiceConfig, 'trainer'>, maxRank: number | null): TrainerLimits | null {
  if (trainer === null) return null;
  const { alpha, targetSets } = TINKER_PROFILES[trainer.profile];
  return { maxRank, alpha, targetSets, entropyGradients: false };
}

/** Combines workers, to start, notify and stop them together. */
export function workersTogether(
  kinds: Readonly<{ training: TrainingWorker; exports: ExportWorker; imports: ImportWorker }>,
): Omit<JobWorkers, 'close' | 'addBaseModel'> {
  const workers = Object.values(kinds);
  return {
    ...kinds,
    run: () => workers.forEach((worker) => worker.start()),
    notify: () => workers.forEach((worker) => worker.notify()),
    stop: async () => void (await Promise.all(workers.map((worker) => worker.stop()))),
  };
}

/** Jobs that other processes take from the database: this process only queues them and waits for them. */
export function remoteJobWorkers(parts: JobWorkerParts): JobWorkers {
  // Never started: it queues imports and waits for their rows.
  const imports = new ImportWorker({ ...parts, backend: NO_TRANSFERS, baseModels: [] });
  return {
    // The job's owner learns from the database that it was stopped, and checks twice a second.
    training: { baseModels: [], notify: () => undefined, stopJob: async () => undefined, problem: () => null },
    exports: { notify: () => undefined, cancelExport: () => undefined, cancelModel: () => undefined },
    imports,
    run: () => undefined,
    notify: () => undefined,
    addBaseModel: () => undefined,
    stop: () => imports.stop(),
    close: async () => undefined,
  };
}

const NO_TRANSFERS: TransferBackend = {
  exportCheckpoint: () => Promise.reject(new Error('this process runs no exports')),
  importAdapter: () => Promise.reject(new Error('this process runs no imports')),
};
