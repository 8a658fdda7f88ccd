import { JobMachine } from '../job-machine.ts';
import { PullJobs, type PullJobsOptions } from './pull.ts';

/** Runs queued pulls, one after the other: a second download at once would only share the network. */
export class PullWorker {
  readonly #machine: JobMachine<'pull'>;

  constructor(options: PullJobsOptions) {
    this.#machine = new JobMachine({ ...options, work: new PullJobs(options) });
  }

  start(): void {
    this.#machine.start();
  }

  /** Returns the running pull to the queue. Its bytes stay, and the next claim continues it. */
  stop(): Promise<void> {
    return this.#machine.stop();
  }

  notify(): void {
    this.#machine.notify();
  }

  async cancelJob(jobId: string): Promise<void> {
    await this.#machine.releaseJob(({ id }) => id === jobId, 'the pull was cancelled');
  }
}
