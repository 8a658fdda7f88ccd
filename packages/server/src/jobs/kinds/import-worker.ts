import { type Adapter, type Job, type JobOrigin, StoreError } from '@trainyard/store';

import type { AdapterImporter } from '../../seams/contract/backends.ts';
import { trainedBaseModels } from '../../seams/contract/trained-base-models.ts';
import { HTTP_FAULTS, JobFault, type FaultCode } from '../../seams/faults/http-faults.ts';
import { RequestError } from '../../seams/faults/request-error.ts';
import { JobMachine, type JobMachineOptions } from '../job-machine.ts';
import { ImportJobs, type ImportJobsOptions, uploadedFiles } from './import.ts';

/**
 * Maximum of queued and running imports, in all processes, and of requests that wait for one here: each takes
 * seconds, and holds its request open.
 */
const MAX_IMPORTS = 16;
/** Interval of checks, because another process may run the import. */
const LOOK_MS = 500;
/** As long as other processes wait for a silent trainer: one that only restarts is back by then. */
const MAX_ABSENCE_MS = 30_000;

interface Waiting {
  numRequests: number;
  /** Settles when it ended in this process, or the service stops. */
  readonly ended: PromiseWithResolvers<void>;
  /** Error that it failed with in this process; null until then. */
  fault: unknown;
}

export interface ImportWorkerOptions extends ImportJobsOptions, Pick<JobMachineOptions<'import'>, 'baseModels'> {
  /** Maximum wait of a request while no running trainer has the base model, default 30 s. */
  readonly maxAbsenceMs?: number;
}

/**
 * Runs queued imports one after the other, because each may take the memory of its file twice, and answers
 * waiting requests.
 */
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
      ended: (jobId: string) => this.#waiting.get(jobId)?.ended.resolve(),
    };
    this.#machine = new JobMachine({ ...options, work: new ImportJobs(options, audience) });
  }

  start(): void {
    this.#machine.start();
  }

  /** Checks for work now rather than at the next poll. */
  notify(): void {
    this.#machine.notify();
  }

  /** Returns the running import to the queue, and wakes waiting requests. */
  async stop(): Promise<void> {
    const stopped = this.#machine.stop();
    for (const { ended } of this.#waiting.values()) ended.resolve();
    await stopped;
  }

  /**
   * Waits for the end of the import. If no trainer can take it, it stays in the queue and the request is
   * refused.
   * @throws {RequestError} `request.too_many` if too many wait already; `server.unavailable` if no running
   * trainer has the base model
   */
  async commit(adapter: Adapter, origin?: JobOrigin): Promise<Adapter> {
    const { store, blobs } = this.#options;
    if (this.#numRequests >= MAX_IMPORTS) throw tooMany();
    this.#numRequests += 1;
    try {
      const current = await store.adapters.get(adapter.id);
      if (current?.upload == null) return current ?? gone(adapter);
      try {
        await uploadedFiles(blobs, current);
      } catch (error) {
        // The adapter was deleted during the check, or another request committed it and removed its files.
        const now = await store.adapters.get(adapter.id);
        if (now?.upload == null) return now ?? gone(adapter);
        throw error;
      }
      const job = await store.adapters.enqueueImport(adapter.id, {
        maxLive: MAX_IMPORTS,
        ...(origin && { origin }),
      });
      if (job !== null) await this.#ended(job.id);
      return (await store.adapters.get(adapter.id)) ?? gone(adapter);
    } catch (error) {
      throw error instanceof StoreError && error.code === 'store.queue_full' ? tooMany() : error;
    } finally {
      this.#numRequests -= 1;
    }
  }

  async cancelAdapter(adapterId: string): Promise<void> {
    await this.#machine.releaseJob(({ turn }) => turn === adapterId, 'the adapter was deleted');
  }

  /** Waits for the end of the import on any machine. @throws the error it failed with */
  async #ended(jobId: string): Promise<void> {
    const waiting = this.#waiting.get(jobId) ?? { numRequests: 0, ended: Promise.withResolvers(), fault: null };
    this.#waiting.set(jobId, waiting);
    waiting.numRequests += 1;
    let absentSince: number | null = null;
    try {
      this.#machine.notify();
      for (;;) {
        if (this.#machine.isStopping)
          throw new RequestError('server.unavailable', 'The service is shutting down; commit the upload again');
        const job = await this.#options.store.jobs.get(jobId);
        if (job?.status === 'failed') throw waiting.fault ?? (await this.#storedFault(job));
        if (job === null || job.finishedAt !== null) return;
        absentSince = (await this.#canBeTaken(job)) ? null : (absentSince ?? performance.now());
        if (absentSince !== null && performance.now() - absentSince >= this.#maxAbsenceMs) throw noTrainer(job);
        await settledWithin(waiting.ended.promise, LOOK_MS);
      }
    } finally {
      waiting.numRequests -= 1;
      if (waiting.numRequests === 0) this.#waiting.delete(jobId);
    }
  }

  /** True if it runs, or an available trainer has its base model. */
  async #canBeTaken({ status, baseModel }: Job): Promise<boolean> {
    if (status !== 'queued') return true;
    const { store, baseModels = null } = this.#options;
    const trained = await trainedBaseModels(store, baseModels);
    return trained === null || trained.has(baseModel);
  }

  get #maxAbsenceMs(): number {
    return this.#options.maxAbsenceMs ?? MAX_ABSENCE_MS;
  }

  /** Error of an import that failed in another process. */
  async #storedFault({ id, errorMessage }: Job): Promise<JobFault> {
    const events = await this.#options.store.jobs.listEvents({ jobId: id, type: 'job_failed', limit: 1 });
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

/** Resolves when `ended` does, or after `ms`. */
async function settledWithin(ended: Promise<void>, ms: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const look = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms);
  });
  await Promise.race([ended, look]);
  clearTimeout(timer);
}
