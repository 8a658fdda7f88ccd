import { type Adapter, type Job, type JobOrigin, StoreError } from '@trainyard/store';

import type { AdapterImporter } from '../../seams/contract/backends.ts';
import { trainedBaseModels } from '../../seams/contract/trained-base-models.ts';
import { HTTP_FAULTS, JobFault, type FaultCode } from '../../seams/faults/http-faults.ts';
import { RequestError } from '../../seams/faults/request-error.ts';
import { JobMachine, type JobMachineOptions } from '../job-machine.ts';
import { ImportJobs, type ImportJobsOptions, uploadedFiles } from './import.ts';

/** Imports that are queued or run, of all processes, and requests that wait for one here: each takes seconds, and holds its request open. */
const MAX_IMPORTS = 16;
/** Another process may have the import. */
const LOOK_MS = 500;
/** As long as others count on a trainer that is silent: one that only starts again is back by then. */
const MAX_ABSENCE_MS = 30_000;

/** A request, or several, that wait for the end of one job. */
interface Waiting {
  numRequests: number;
  /** Settles when it ended in this process, or the service stops. */
  readonly told: PromiseWithResolvers<void>;
  /** Why it failed in this process, as it was thrown; null until then. */
  fault: unknown;
}

export interface ImportWorkerOptions extends ImportJobsOptions, Pick<JobMachineOptions<'import'>, 'baseModels'> {
  /** How long a request waits while no trainer that runs has the base model, default 30 s. */
  readonly maxAbsenceMs?: number;
}

/** Runs queued imports, one after the other, and answers those who wait: each import may take the memory of its file twice. */
export class ImportWorker implements AdapterImporter {
  readonly #options: ImportWorkerOptions;
  readonly #machine: JobMachine<'import'>;
  readonly #waiting = new Map<string, Waiting>();
  #numRequests = 0;

  constructor(options: ImportWorkerOptions) {
    this.#options = options;
    const audience = {
      fails: (jobId: string, error: unknown) => {
        const waiting = this.#waiting.get(jobId);
        if (waiting !== undefined) waiting.fault = error;
      },
      ended: (jobId: string) => this.#waiting.get(jobId)?.told.resolve(),
    };
    this.#machine = new JobMachine({ ...options, work: new ImportJobs(options, audience) });
  }

  start(): void {
    this.#machine.start();
  }

  /** Looks for work now rather than at the next poll. */
  notify(): void {
    this.#machine.notify();
  }

  /** The import that runs goes back to the queue, and whoever waits is told. */
  async stop(): Promise<void> {
    const stopped = this.#machine.stop();
    for (const { told } of this.#waiting.values()) told.resolve();
    await stopped;
  }

  /**
   * Waits for the end of the import. One that no trainer can take stays in the queue, and whoever waits is told.
   *
   * @throws {RequestError} `request.too_many` when too many wait already; `server.unavailable` when no trainer that runs has the base model
   */
  async commit(adapter: Adapter, origin?: JobOrigin): Promise<Adapter> {
    const { store, blobs } = this.#options;
    if (this.#numRequests >= MAX_IMPORTS) throw tooMany();
    this.#numRequests += 1;
    try {
      const current = await store.getAdapter(adapter.id);
      if (current?.upload == null) return current ?? gone(adapter);
      try {
        await uploadedFiles(blobs, current);
      } catch (error) {
        // Deleted while its files were looked for, whatever that looked like, or committed by another, who takes them away.
        const now = await store.getAdapter(adapter.id);
        if (now?.upload == null) return now ?? gone(adapter);
        throw error;
      }
      const job = await store.enqueueImport(adapter.id, {
        maxLive: MAX_IMPORTS,
        ...(origin && { origin }),
      });
      if (job !== null) await this.#ended(job.id);
      return (await store.getAdapter(adapter.id)) ?? gone(adapter);
    } catch (error) {
      throw error instanceof StoreError && error.code === 'store.queue_full' ? tooMany() : error;
    } finally {
      this.#numRequests -= 1;
    }
  }

  async cancelAdapter(adapterId: string): Promise<void> {
    await this.#machine.letGo(({ turn }) => turn === adapterId, 'the adapter was deleted');
  }

  /** Waits for the end of the import, wherever it runs. @throws what it failed with */
  async #ended(jobId: string): Promise<void> {
    const waiting = this.#waiting.get(jobId) ?? { numRequests: 0, told: Promise.withResolvers(), fault: null };
    this.#waiting.set(jobId, waiting);
    waiting.numRequests += 1;
    let absentSince: number | null = null;
    try {
      this.#machine.notify();
      for (;;) {
        if (this.#machine.isStopping)
          throw new RequestError('server.unavailable', 'The service is shutting down; commit the upload again');
        const job = await this.#options.store.getJob(jobId);
        if (job?.status === 'failed') throw waiting.fault ?? (await this.#storedFault(job));
        if (job === null || job.finishedAt !== null) return;
        absentSince = (await this.#canBeTaken(job)) ? null : (absentSince ?? performance.now());
        if (absentSince !== null && performance.now() - absentSince >= this.#maxAbsenceMs) throw noTrainer(job);
        await settledWithin(waiting.told.promise, LOOK_MS);
      }
    } finally {
      waiting.numRequests -= 1;
      if (waiting.numRequests === 0) this.#waiting.delete(jobId);
    }
  }

  /** Whether it runs, or some trainer that is there has its base model. */
  async #canBeTaken({ status, baseModel }: Job): Promise<boolean> {
    if (status !== 'queued') return true;
    const { store, baseModels = null } = this.#options;
    const trained = await trainedBaseModels(store, baseModels);
    return trained === null || trained.has(baseModel);
  }

  get #maxAbsenceMs(): number {
    return this.#options.maxAbsenceMs ?? MAX_ABSENCE_MS;
  }

  /** It failed in another process. */
  async #storedFault({ id, errorMessage }: Job): Promise<JobFault> {
    const events = await this.#options.store.listEvents({ jobId: id, type: 'job_failed', limit: 1 });
    const { code, message } = events?.items[0]?.data ?? {};
    const isKnown = typeof code === 'string' && Object.hasOwn(HTTP_FAULTS, code);
    const words = typeof message === 'string' ? message : (errorMessage ?? 'the import failed');
    return new JobFault(isKnown ? (code as FaultCode) : 'internal', words);
  }
}

function noTrainer({ baseModel }: Job): RequestError {
  return new RequestError(
    'server.unavailable',
    `No running trainer has the base model ${baseModel} of the adapter (--model). The import stays in the queue until one does; commit the upload again to wait for it`,
    { headers: { 'retry-after': '30' } },
  );
}

function tooMany(): RequestError {
  return new RequestError(
    'request.too_many',
    `${MAX_IMPORTS} adapter imports are running or waiting, which is the limit; commit the upload again later`,
    { headers: { 'retry-after': '5' } },
  );
}

function gone(adapter: Adapter): never {
  throw new RequestError('request.not_found', `The adapter "${adapter.id}" was deleted`, { param: 'adapter_id' });
}

/** Resolves when `told` does, and at the latest after so long. */
async function settledWithin(told: Promise<void>, ms: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const look = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms);
  });
  await Promise.race([told, look]);
  clearTimeout(timer);
}
