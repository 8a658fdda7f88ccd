import type {
  ArtifactObject,
  ChatCompletion,
  ChatCompletionChunk,
  ChatCompletionField,
  CheckpointObject,
  CreateModelRequest,
  CreateSftTrainingJobRequest,
  DeleteArtifactResponse,
  DeleteCheckpointsResponse,
  DeleteModelResponse,
  Health,
  ListPage,
  LoraRequest,
  ModelCard,
  ModelList,
  ModelObject,
  TrainingEventObject,
  TrainingJobObject,
  WireSftConfig,
  WireSftExperimentalConfig,
  WireSftLine,
  WireTrainingConfig,
  WireTrajectoryGroup,
} from '@trainyard/protocol';

import { Adapters } from './adapters.ts';
import {
  type CallOptions,
  Connection,
  type PageOptions,
  query,
  type RequestOptions,
  type TrainyardOptions,
} from './connection.ts';
import { delay } from './delay.ts';
import { TrainingFailedError, TrainyardApiError } from './errors.ts';
import { Exports } from './exports.ts';
import { Keys } from './keys.ts';
import { readServerSentEvents } from './server-sent-events.ts';

/** A chat request; every vLLM field is allowed, see `ChatCompletionRequestSchema`. */
export type ChatBody = { model: string; messages: readonly object[] } & {
  [Field in Exclude<ChatCompletionField, 'model' | 'messages' | 'stream'>]?: unknown;
};

/** Where uploads of one name are. */
export interface ArtifactPath {
  /** the key's own entity */
  readonly entity: string;
  readonly project: string;
  readonly name: string;
}

function artifactPath({ entity, project, name }: ArtifactPath): string {
  return `/preview/artifacts/${[entity, project, name].map(encodeURIComponent).join('/')}`;
}

/** How often a waiting client looks for new events. */
const POLL_INTERVAL_MS = 250;

/**
 * Typed client for Node and browsers. Errors are `TrainyardApiError`s; nothing is retried, since only the caller knows what may run twice
 * (give an `idempotencyKey` where it may).
 */
export class Trainyard {
  readonly #connection: Connection;
  /** Checkpoints as files in public formats. */
  readonly exports: Exports;
  /** Adapters that were trained elsewhere. */
  readonly adapters: Adapters;
  /** Who may use the service. */
  readonly keys: Keys;

  /** @throws {TypeError} without a key in the options or in `TRAINYARD_API_KEY` */
  constructor(options: TrainyardOptions = {}) {
    this.#connection = new Connection(options);
    this.exports = new Exports(this.#connection);
    this.adapters = new Adapters(this.#connection);
    this.keys = new Keys(this.#connection);
  }

  /** Finds or makes a model; safe to call again and again. */
  async registerModel(
    model: { project: string; name: string; baseModel: string; entity?: string; lora?: LoraRequest },
    options: CallOptions = {},
  ): Promise<ModelObject> {
    const body: CreateModelRequest = {
      entity: model.entity ?? null,
      project: model.project,
      name: model.name,
      base_model: model.baseModel,
      return_existing: true,
      ...(model.lora === undefined ? {} : { lora: model.lora }),
    };
    return await this.#call('POST', '/preview/models', { ...options, body });
  }

  /** Removes the model, its checkpoints and their files; its running jobs are cancelled. */
  async deleteModel(modelId: string, options: CallOptions = {}): Promise<DeleteModelResponse> {
    return await this.#call('DELETE', `/preview/models/${encodeURIComponent(modelId)}`, options);
  }

  async listCheckpoints(
    modelId: string,
    page: PageOptions = {},
    options: CallOptions = {},
  ): Promise<ListPage<CheckpointObject>> {
    return await this.#call('GET', `/preview/models/${encodeURIComponent(modelId)}/checkpoints${query(page)}`, options);
  }

  async deleteCheckpoints(
    modelId: string,
    steps: readonly number[],
    options: CallOptions = {},
  ): Promise<DeleteCheckpointsResponse> {
    return await this.#call('DELETE', `/preview/models/${encodeURIComponent(modelId)}/checkpoints`, {
      ...options,
      body: { steps },
    });
  }

  /** Stores trajectories of a split (for example `val`) and puts their means on the latest checkpoint. */
  async log(
    modelId: string,
    split: string,
    groups: readonly WireTrajectoryGroup[],
    options: CallOptions = {},
  ): Promise<void> {
    await this.#call('POST', `/preview/models/${encodeURIComponent(modelId)}/log`, {
      ...options,
      body: { model_id: modelId, split, trajectory_groups: groups },
    });
  }

  /** Queues a training job and returns at once; see `waitForTraining`. */
  async createTrainingJob(
    modelId: string,
    groups: readonly WireTrajectoryGroup[],
    config: WireTrainingConfig = {},
    options: CallOptions = {},
  ): Promise<TrainingJobObject> {
    return await this.#call('POST', '/preview/training-jobs', {
      ...options,
      body: { model_id: modelId, trajectory_groups: groups, experimental_config: config },
    });
  }

  /**
   * Queues a supervised job and returns at once; see `waitForTraining`.
   *
   * @param trainingDataUrl `url` of an upload, or a `data:` or `file:` URL
   */
  async createSftTrainingJob(
    modelId: string,
    trainingDataUrl: string,
    config: WireSftConfig = {},
    options: CallOptions & { experimentalConfig?: WireSftExperimentalConfig } = {},
  ): Promise<TrainingJobObject> {
    const { experimentalConfig = {}, ...call } = options;
    const body: CreateSftTrainingJobRequest = {
      model_id: modelId,
      training_data_url: trainingDataUrl,
      config,
      experimental_config: experimentalConfig,
    };
    return await this.#call('POST', '/preview/sft-training-jobs', { ...call, body });
  }

  /**
   * Uploads conversations to train on: JSON lines as they are, or values that become lines.
   *
   * @returns the new version; its `url` is what `createSftTrainingJob` takes
   */
  async uploadArtifact(
    artifact: ArtifactPath,
    data: string | Blob | readonly WireSftLine[],
    options: CallOptions & { fileName?: string } = {},
  ): Promise<ArtifactObject> {
    const { fileName, ...call } = options;
    const query = fileName === undefined ? '' : `?file_name=${encodeURIComponent(fileName)}`;
    const content =
      typeof data === 'string' || data instanceof Blob
        ? data
        : data.map((line) => `${JSON.stringify(line)}\n`).join('');
    return await this.#call('POST', artifactPath(artifact) + query, {
      ...call,
      upload: { content, mediaType: 'application/jsonl' },
    });
  }

  /** Every version of every upload, or those of one name, oldest first. */
  async listArtifacts(
    artifact: ArtifactPath | null = null,
    page: PageOptions = {},
    options: CallOptions = {},
  ): Promise<ListPage<ArtifactObject>> {
    const path = artifact === null ? '/preview/artifacts' : artifactPath(artifact);
    return await this.#call('GET', path + query(page), options);
  }

  /** @param version `v0`, `v1`, … or `latest` */
  async getArtifact(artifact: ArtifactPath, version: string, options: CallOptions = {}): Promise<ArtifactObject> {
    return await this.#call('GET', `${artifactPath(artifact)}/${encodeURIComponent(version)}`, options);
  }

  /** Jobs that were made from it keep their copy. */
  async deleteArtifact(
    artifact: ArtifactPath,
    version: string,
    options: CallOptions = {},
  ): Promise<DeleteArtifactResponse> {
    return await this.#call('DELETE', `${artifactPath(artifact)}/${encodeURIComponent(version)}`, options);
  }

  async getTrainingJob(jobId: string, options: CallOptions = {}): Promise<TrainingJobObject> {
    return await this.#call('GET', `/preview/training-jobs/${encodeURIComponent(jobId)}`, options);
  }

  /** Jobs of a model in order of submission. */
  async listTrainingJobs(
    modelId: string,
    page: PageOptions = {},
    options: CallOptions = {},
  ): Promise<ListPage<TrainingJobObject>> {
    const path = `/preview/models/${encodeURIComponent(modelId)}/training-jobs${query(page)}`;
    return await this.#call('GET', path, options);
  }

  /** Ends a job now; the model stays at its last step. @throws {TrainyardApiError} 409 when it has succeeded or failed */
  async cancelTrainingJob(jobId: string, options: CallOptions = {}): Promise<TrainingJobObject> {
    return await this.#call('POST', `/preview/training-jobs/${encodeURIComponent(jobId)}/cancel`, options);
  }

  /** Holds a job, and with it the later jobs of its model. @throws {TrainyardApiError} 409 when it has ended */
  async pauseTrainingJob(jobId: string, options: CallOptions = {}): Promise<TrainingJobObject> {
    return await this.#call('POST', `/preview/training-jobs/${encodeURIComponent(jobId)}/pause`, options);
  }

  /** Lets a paused job go on after its last gradient step. @throws {TrainyardApiError} 409 when it has ended */
  async resumeTrainingJob(jobId: string, options: CallOptions = {}): Promise<TrainingJobObject> {
    return await this.#call('POST', `/preview/training-jobs/${encodeURIComponent(jobId)}/resume`, options);
  }

  async listTrainingEvents(
    jobId: string,
    page: Omit<PageOptions, 'order'> = {},
    options: CallOptions = {},
  ): Promise<ListPage<TrainingEventObject>> {
    return await this.#call('GET', `/preview/training-jobs/${encodeURIComponent(jobId)}/events${query(page)}`, options);
  }

  /** Every event of a job, as they come, up to and including the terminal one. */
  async *watchTrainingJob(jobId: string, options: CallOptions = {}): AsyncGenerator<TrainingEventObject> {
    let after: string | undefined;
    for (;;) {
      const page = await this.listTrainingEvents(
        jobId,
        { limit: 100, ...(after === undefined ? {} : { after }) },
        options,
      );
      for (const event of page.data) {
        yield event;
        if (event.type === 'training_ended' || event.type === 'training_failed') return;
        after = event.id;
      }
      if (!page.has_more) await delay(POLL_INTERVAL_MS, options.signal);
    }
  }

  /**
   * Waits for the end of a job.
   * @returns the data of its `gradient_step` events, in order
   * @throws {TrainingFailedError}
   */
  async waitForTraining(jobId: string, options: CallOptions = {}): Promise<Record<string, number>[]> {
    const steps: Record<string, number>[] = [];
    for await (const event of this.watchTrainingJob(jobId, options)) {
      if (event.type === 'gradient_step') steps.push(event.data as Record<string, number>);
      if (event.type === 'training_failed') throw new TrainingFailedError(jobId, errorMessage(event));
    }
    return steps;
  }

  async chat(body: ChatBody, options: CallOptions = {}): Promise<ChatCompletion> {
    return await this.#call('POST', '/chat/completions', { ...options, body });
  }

  /** @throws {TrainyardApiError} also for an error that the service sends inside the stream (status 200 then) */
  async *chatStream(body: ChatBody, options: CallOptions = {}): AsyncGenerator<ChatCompletionChunk> {
    const response = await this.#connection.request('POST', '/chat/completions', {
      ...options,
      body: { ...body, stream: true },
    });
    for await (const data of readServerSentEvents(response)) {
      if (data === '[DONE]') return;
      const chunk = JSON.parse(data) as ChatCompletionChunk | { error: unknown };
      if ('error' in chunk) throw new TrainyardApiError(response.status, chunk, 'the stream ended with an error');
      yield chunk;
    }
  }

  async listModels(options: CallOptions = {}): Promise<ModelList> {
    return await this.#call('GET', '/models', options);
  }

  /** One model, by any of its names; its `id` names the version. */
  async getModel(name: string, options: CallOptions = {}): Promise<ModelCard> {
    return await this.#call('GET', `/models/${name.split('/').map(encodeURIComponent).join('/')}`, options);
  }

  /** Whether all parts of the service work as they should. */
  async isHealthy(options: CallOptions = {}): Promise<boolean> {
    const response = await this.#connection.send('/health', { signal: options.signal ?? null });
    const health = (await response.json().catch(() => null)) as Health | null;
    return response.ok && health?.status !== 'degraded';
  }

  async #call<Answer>(method: string, path: string, options: RequestOptions): Promise<Answer> {
    return await this.#connection.call(method, path, options);
  }
}

function errorMessage(event: TrainingEventObject): string {
  const message = event.data['error_message'];
  return typeof message === 'string' ? message : 'unknown error';
}
