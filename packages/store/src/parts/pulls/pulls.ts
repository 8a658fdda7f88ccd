import type { FinishedJob, JobOrigin, PullJob } from '../jobs/jobs.ts';

/** Downloads of base models from a hub, as jobs of the queue. */
export interface Pulls {
  /**
   * Enqueues a pull of a base model. A live one is returned instead, so that each base model is downloaded once.
   * @throws {StoreError} `store.queue_full`
   */
  enqueue(input: NewPull): Promise<PullJob>;
  /** Ends a pull whose files are all there. @throws {StoreError} `store.lease_lost` */
  finish(jobId: string, fencingToken: number): Promise<FinishedJob>;
  /** Newest pull of each base model, in order of submission. */
  listNewest(): Promise<PullJob[]>;
}

export interface NewPull {
  readonly entityId: string;
  /** Id under which the model is served. */
  readonly baseModel: string;
  /** Maximum number of live pulls, this one included; default: unlimited. */
  readonly maxLive?: number;
  /** Default: no known request. */
  readonly origin?: JobOrigin;
}
