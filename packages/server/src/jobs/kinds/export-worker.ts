import type { ExportQueue } from '../../seams/contract/backends.ts';
import { JobMachine, type JobMachineOptions } from '../job-machine.ts';
import { ExportJobs, type ExportJobsOptions } from './export.ts';

const DELETED = 'the export was deleted';

export class ExportWorker implements ExportQueue {
  readonly #machine: JobMachine<'export'>;

  constructor(options: ExportJobsOptions & Pick<JobMachineOptions<'export'>, 'baseModels'>) {
    this.#machine = new JobMachine({ ...options, work: new ExportJobs(options) });
  }

  start(): void {
    this.#machine.start();
  }

  stop(): Promise<void> {
    return this.#machine.stop();
  }

  notify(): void {
    this.#machine.notify();
  }

  async cancelExport(exportId: string): Promise<void> {
    await this.#machine.releaseJob(({ id }) => id === exportId, DELETED);
  }

  async cancelModel(modelId: string): Promise<void> {
    await this.#machine.releaseJob((job) => job.modelId === modelId, DELETED);
  }
}
