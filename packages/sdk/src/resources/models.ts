import type {
  BaseModelList,
  BaseModelObject,
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
  UpdateModelRequest,
} from '@trainyard/protocol';

import type { CallOptions, Connection } from '../http/connection.ts';
import { listPages } from '../http/list-pages.ts';
import type { PagePromise } from '../http/page.ts';
import { path } from '../http/query.ts';

/** Base models, and those of a hub that the service fetches. */
export class BaseModels {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** Served base models, then those that are being fetched or could not be fetched. */
  async list(options: CallOptions = {}): Promise<BaseModelList> {
    return await this.#connection.json('GET', '/v1/preview/base-models', options);
  }

  /** Fetches a base model from the hub; safe to repeat. */
  async fetch(baseModel: string, options: CallOptions = {}): Promise<BaseModelObject> {
    const body = { base_model: baseModel };
    return await this.#connection.json('POST', '/v1/preview/base-models', { ...options, body, repeat: 'always' });
  }

  /** Stops a download. A later `fetch` continues it. */
  async cancel(baseModel: string, options: CallOptions = {}): Promise<BaseModelObject> {
    const body = { base_model: baseModel };
    return await this.#connection.json('POST', '/v1/preview/base-models/cancel', {
      ...options,
      body,
      repeat: 'always',
    });
  }
}

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

  /** Finds or creates a model; safe to repeat. */
  async register(body: Omit<CreateModelRequest, 'return_existing'>, options: CallOptions = {}): Promise<ModelObject> {
    return await this.create({ ...body, return_existing: true }, options);
  }

  /** Models in order of creation, each with its latest checkpoint and its live jobs; without archived ones. */
  list(query: ModelPageQuery = {}, options: CallOptions = {}): PagePromise<ModelDetailsObject> {
    return listPages(this.#connection, '/v1/preview/models', query, options);
  }

  async retrieve(modelId: string, options: CallOptions = {}): Promise<ModelDetailsObject> {
    return await this.#connection.json('GET', path`/v1/preview/models/${modelId}`, options);
  }

  /**
   * Adds and removes tags, replaces the notes, archives or restores; safe to repeat.
   *
   * @throws {ConflictError} if a model with unfinished training jobs is to be archived
   */
  async update(modelId: string, body: UpdateModelRequest, options: CallOptions = {}): Promise<ModelDetailsObject> {
    return await this.#connection.json('PATCH', path`/v1/preview/models/${modelId}`, {
      ...options,
      body,
      repeat: 'always',
    });
  }

  /** Deletes the model, its checkpoints and their files; cancels its running jobs. */
  async delete(modelId: string, options: CallOptions = {}): Promise<DeleteModelResponse> {
    return await this.#connection.json('DELETE', path`/v1/preview/models/${modelId}`, options);
  }

  /** Names of its metrics, each with the latest value. */
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

/** Steps of models that can be sampled. */
export class Checkpoints {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** Checkpoints by step; `{ limit: 1, order: 'desc' }` is the newest. */
  list(modelId: string, query: CheckpointPageQuery = {}, options: CallOptions = {}): PagePromise<CheckpointObject> {
    return listPages(this.#connection, checkpointsPath(modelId), query, options);
  }

  /**
   * Marks steps, which the service then never removes by itself; restores a removed step while that is
   * possible.
   *
   * @param isKept false removes the marks
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

  /** Deletes steps; their numbers are never reused. Missing ones are no error. */
  async delete(
    modelId: string,
    steps: readonly number[],
    options: CallOptions = {},
  ): Promise<DeleteCheckpointsResponse> {
    return await this.#connection.json('DELETE', checkpointsPath(modelId), { ...options, body: { steps } });
  }
}

/** Trajectories kept without training, e.g. of an evaluation. */
export class TrajectoryLogs {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** Keeps trajectories of a split (for example `val`) and adds their means to the latest checkpoint. */
  async create(
    modelId: string,
    body: Omit<LogTrajectoriesRequest, 'model_id'>,
    options: CallOptions = {},
  ): Promise<LogTrajectoriesResponse> {
    return await this.#connection.json('POST', path`/v1/preview/models/${modelId}/log`, { ...options, body });
  }
}

/** Model names for sampling requests. */
export class ServedModels {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** Base models, then each trained model, by its bare name and by each of its steps. */
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
