import type {
  CheckpointObject,
  CheckpointPageQuery,
  KeepCheckpointsResponse,
  CreateModelRequest,
  DeleteCheckpointsResponse,
  DeleteModelResponse,
  LogTrajectoriesRequest,
  LogTrajectoriesResponse,
  MetricListObject,
  ModelCard,
  ModelDetailsObject,
  ModelList,
  ModelObject,
  ModelPageQuery,
  SeriesListObject,
  SeriesQueryObject,
} from '@trainyard/protocol';

import type { CallOptions, Connection } from '../http/connection.ts';
import { listPages } from '../http/list-pages.ts';
import type { PagePromise } from '../http/page.ts';
import { path } from '../http/query.ts';

/** Models to train. */
export class Models {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** Registers a model. @throws {ConflictError} `request.model_exists` unless `return_existing` is true */
  async create(body: CreateModelRequest, options: CallOptions = {}): Promise<ModelObject> {
    return await this.#connection.json('POST', '/v1/preview/models', { ...options, body });
  }

  /** Finds or makes a model; safe to call again and again. */
  async register(body: Omit<CreateModelRequest, 'return_existing'>, options: CallOptions = {}): Promise<ModelObject> {
    return await this.create({ ...body, return_existing: true }, options);
  }

  /** In order of creation, each with its latest checkpoint and its live jobs. */
  list(query: ModelPageQuery = {}, options: CallOptions = {}): PagePromise<ModelDetailsObject> {
    return listPages(this.#connection, '/v1/preview/models', query, options);
  }

  async retrieve(modelId: string, options: CallOptions = {}): Promise<ModelDetailsObject> {
    return await this.#connection.json('GET', path`/v1/preview/models/${modelId}`, options);
  }

  /** Removes the model, its checkpoints and their files; its running jobs are cancelled. */
  async delete(modelId: string, options: CallOptions = {}): Promise<DeleteModelResponse> {
    return await this.#connection.json('DELETE', path`/v1/preview/models/${modelId}`, options);
  }

  /** Names of its metrics, each with its latest value. */
  async metrics(modelId: string, options: CallOptions = {}): Promise<MetricListObject> {
    return await this.#connection.json('GET', path`/v1/preview/models/${modelId}/metrics`, options);
  }

  /** Points of metrics over the steps or gradient steps of the model. */
  async series(
    modelId: string,
    query: Omit<SeriesQueryObject, 'name'> & { name: string | readonly string[] },
    options: CallOptions = {},
  ): Promise<SeriesListObject> {
    return await this.#connection.json('GET', path`/v1/preview/models/${modelId}/series`, { ...options, query });
  }
}

/** Steps of models that can be sampled from. */
export class Checkpoints {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** By step; `{ limit: 1, order: 'desc' }` is the newest. */
  list(modelId: string, query: CheckpointPageQuery = {}, options: CallOptions = {}): PagePromise<CheckpointObject> {
    return listPages(this.#connection, checkpointsPath(modelId), query, options);
  }

  /**
   * Marks steps, which the service then never removes by itself; a step that it removed is restored while that is possible.
   *
   * @param isKept False: takes the marks away.
   */
  async keep(
    modelId: string,
    steps: readonly number[],
    isKept = true,
    options: CallOptions = {},
  ): Promise<KeepCheckpointsResponse> {
    const body = { steps, is_kept: isKept };
    return await this.#connection.json('POST', path`/v1/preview/models/${modelId}/checkpoints/keep`, {
      ...options,
      body,
    });
  }

  /** Step numbers are never used again. Deleting what is gone is no error. */
  async delete(
    modelId: string,
    steps: readonly number[],
    options: CallOptions = {},
  ): Promise<DeleteCheckpointsResponse> {
    return await this.#connection.json('DELETE', checkpointsPath(modelId), { ...options, body: { steps } });
  }
}

/** Trajectories that are kept and not trained on, e.g. of an evaluation. */
export class TrajectoryLogs {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** Keeps trajectories of a split (for example `val`) and puts their means on the latest checkpoint. */
  async create(
    modelId: string,
    body: Omit<LogTrajectoriesRequest, 'model_id'>,
    options: CallOptions = {},
  ): Promise<LogTrajectoriesResponse> {
    return await this.#connection.json('POST', path`/v1/preview/models/${modelId}/log`, { ...options, body });
  }
}

/** Names that `model` of a request for sampling can have. */
export class ServedModels {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** The base models, then each trained model, by its bare name and by each of its steps. */
  async list(options: CallOptions = {}): Promise<ModelList> {
    return await this.#connection.json('GET', '/v1/models', options);
  }

  /** One model, by any of its names; its `id` names the version. */
  async retrieve(name: string, options: CallOptions = {}): Promise<ModelCard> {
    const parts = name.split('/').map(encodeURIComponent).join('/');
    return await this.#connection.json('GET', `/v1/models/${parts}`, options);
  }
}

const checkpointsPath = (modelId: string) => path`/v1/preview/models/${modelId}/checkpoints`;
