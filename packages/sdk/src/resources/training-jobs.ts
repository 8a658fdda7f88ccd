import type {
  CreateSftTrainingJobRequest,
  CreateTrainingJobRequest,
  PageQuery,
  TrainingEventObject,
  TrainingExampleList,
  TrainingExamplesQuery,
  TrainingJobObject,
  TrainingJobPageQuery,
  TrainingQueueObject,
  WireTrajectoryGroup,
} from '@trainyard/protocol';

import type { CallOptions, Connection } from '../http/connection.ts';
import { TrainingFailedError, withJob } from '../http/errors.ts';
import { followEvents, type WatchOptions } from '../http/follow-events.ts';
import { PATIENT_OUTAGE_MS } from '../http/outage.ts';
import { listPages } from '../http/list-pages.ts';
import type { PagePromise } from '../http/page.ts';
import { path } from '../http/query.ts';

const EVENT_PAGE = 100;

export type TrainingJobBody = Omit<CreateTrainingJobRequest, 'trajectory_groups'> & {
  trajectory_groups: readonly WireTrajectoryGroup[];
};

/** Training jobs of every kind. */
export class TrainingJobs {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** Queues a job on reward-labelled trajectories and returns at once; see `wait` and `watch`. */
  async create(body: TrainingJobBody, options: CallOptions = {}): Promise<TrainingJobObject> {
    return await this.#connection.json('POST', '/v1/preview/training-jobs', { ...options, body });
  }

  /** Jobs of all models in order of submission; filters: `model_id`, `project`, `status` and `kind`. */
  list(query: TrainingJobPageQuery = {}, options: CallOptions = {}): PagePromise<TrainingJobObject> {
    return listPages(this.#connection, '/v1/preview/training-jobs', query, options);
  }

  async retrieve(jobId: string, options: CallOptions = {}): Promise<TrainingJobObject> {
    return await this.#connection.json('GET', jobPath(jobId), options);
  }

  /** Unfinished jobs, each with its place among those of all entities. */
  async queue(options: CallOptions = {}): Promise<TrainingQueueObject> {
    return await this.#connection.json('GET', '/v1/preview/training-queue', options);
  }

  /**
   * Ends a job now; the model stays at its last step. @throws {ConflictError} if it has succeeded or failed
   */
  async cancel(jobId: string, options: CallOptions = {}): Promise<TrainingJobObject> {
    return await this.#connection.json('POST', `${jobPath(jobId)}/cancel`, options);
  }

  /**
   * Queues a new job with the data and settings of one that failed or was cancelled.
   * @throws {BadRequestError} if it succeeded, is unfinished, or its data were removed
   */
  async retry(jobId: string, options: CallOptions = {}): Promise<TrainingJobObject> {
    return await this.#connection.json('POST', `${jobPath(jobId)}/retry`, options);
  }

  /** Pauses a job, and with it the later jobs of its model. @throws {ConflictError} if it has ended */
  async pause(jobId: string, options: CallOptions = {}): Promise<TrainingJobObject> {
    return await this.#connection.json('POST', `${jobPath(jobId)}/pause`, options);
  }

  /** Resumes a paused job after its last gradient step. @throws {ConflictError} if it has ended */
  async resume(jobId: string, options: CallOptions = {}): Promise<TrainingJobObject> {
    return await this.#connection.json('POST', `${jobPath(jobId)}/resume`, options);
  }

  /** First conversations of a supervised job's data; none for other jobs. @param query `limit`: default 3 */
  async examples(
    jobId: string,
    query: TrainingExamplesQuery = {},
    options: CallOptions = {},
  ): Promise<TrainingExampleList> {
    return await this.#connection.json('GET', `${jobPath(jobId)}/examples`, { ...options, query });
  }

  /** Events, oldest first. */
  events(
    jobId: string,
    query: Omit<PageQuery, 'order'> = {},
    options: CallOptions = {},
  ): PagePromise<TrainingEventObject> {
    return listPages(this.#connection, `${jobPath(jobId)}/events`, query, options);
  }

  /**
   * Yields every event of a job as it arrives, up to and including the terminal one. @throws as
   * `followEvents`
   */
  async *watch(jobId: string, options: WatchOptions = {}): AsyncGenerator<TrainingEventObject, undefined> {
    const feed = {
      path: `${jobPath(jobId)}/events`,
      query: {},
      pageSize: EVENT_PAGE,
      startsNow: false,
      isLast: ({ type }: TrainingEventObject) => type === 'training_ended' || type === 'training_failed',
    };
    try {
      yield* followEvents(this.#connection, feed, options);
    } catch (error) {
      throw withJob(error, jobId);
    }
  }

  /** Waits for the end of a job. @throws {TrainingFailedError} if it failed or was cancelled */
  async wait(jobId: string, options: Omit<WatchOptions, 'after'> = {}): Promise<TrainingJobObject> {
    await this.gradientSteps(jobId, options);
    const { signal, maxOutageMs = PATIENT_OUTAGE_MS, onOutage } = options;
    return await this.retrieve(jobId, { signal, maxOutageMs, onOutage }).catch((error: unknown) => {
      throw withJob(error, jobId);
    });
  }

  /**
   * Waits for the end of a job.
   *
   * @returns the numbers of each of its gradient steps, in order
   * @throws {TrainingFailedError} if it failed or was cancelled
   */
  async gradientSteps(jobId: string, options: Omit<WatchOptions, 'after'> = {}): Promise<Record<string, number>[]> {
    const steps: Record<string, number>[] = [];
    for await (const event of this.watch(jobId, options)) {
      if (event.type === 'gradient_step') steps.push(event.data as Record<string, number>);
      if (event.type === 'training_failed') throw new TrainingFailedError(jobId, errorMessage(event));
    }
    return steps;
  }
}

/** Jobs that train on conversations. The methods of `trainingJobs` apply to them, too. */
export class SftJobs {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /**
   * Queues a supervised job and returns at once. `training_data_url` is the `url` of an upload, or a `data:`
   * or `file:` URL; `held_out_data_url` likewise, of conversations whose loss is measured.
   */
  async create(body: CreateSftTrainingJobRequest, options: CallOptions = {}): Promise<TrainingJobObject> {
    return await this.#connection.json('POST', '/v1/preview/sft-training-jobs', { ...options, body });
  }
}

function errorMessage(event: TrainingEventObject): string {
  const message = event.data['error_message'];
  return typeof message === 'string' ? message : 'unknown error';
}

const jobPath = (jobId: string) => path`/v1/preview/training-jobs/${jobId}`;
