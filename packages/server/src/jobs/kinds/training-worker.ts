import type { TrainerLimits, TrainingJobConfig } from '@trainyard/store';

import type { TrainingQueue } from '../../seams/contract/backends.ts';
import { JobMachine, type JobMachineOptions } from '../job-machine.ts';
import { TrainingJobs, type TrainingJobsOptions } from './training.ts';
import { removeEnded, removeIfEnded } from '../snapshot-folders.ts';

export type TrainingWorkerOptions = TrainingJobsOptions &
  Pick<JobMachineOptions<TrainingJobConfig>, 'baseModels' | 'leaseMs' | 'heartbeatMs'> & {
    /** as `TrainingQueue.limits`; default: none */
    readonly limits?: () => TrainerLimits | null;
  };

/** Runs queued training jobs, one after the other. */
export class TrainingWorker implements TrainingQueue {
  readonly #options: TrainingWorkerOptions;
  readonly #machine: JobMachine<TrainingJobConfig>;

  constructor(options: TrainingWorkerOptions) {
    this.#options = options;
    this.#machine = new JobMachine({ ...options, work: new TrainingJobs(options) });
  }

  get baseModels(): readonly string[] | null {
    return this.#options.baseModels ?? null;
  }

  get limits(): TrainerLimits | null {
    return this.#options.limits?.() ?? null;
  }

  start(): void {
    const { store, workDirectory, log } = this.#options;
    removeEnded(store, workDirectory)
      .catch((error: unknown) => log(`old snapshots are left on disk: ${String(error)}`))
      .finally(() => this.#machine.start());
  }

  /** The job in flight continues from its last gradient step when a worker starts again. */
  stop(): Promise<void> {
    return this.#machine.stop();
  }

  notify(): void {
    this.#machine.notify();
  }

  async stopJob(jobId: string): Promise<void> {
    const { store, workDirectory } = this.#options;
    // A paused or ended job makes room for another.
    this.notify();
    const isHere = await this.#machine.releaseJob(({ id }) => id === jobId, 'the job was cancelled or paused');
    if (!isHere) await removeIfEnded(store, workDirectory, jobId);
  }

  problem(): string | null {
    if (this.#machine.isStopping) return 'stopping';
    return this.#machine.problem ?? this.#options.backend.problem();
  }
}
