import { createHash } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import type { FastifyInstance, LightMyRequestResponse } from 'fastify';
import type { ChatCompletionChunk, ErrorObject } from '@trainyard/protocol';
import {
  type Adapter,
  FolderBlobs,
  type ModelExport,
  type Scope,
  type SqlStore,
  type TrainerLimits,
} from '@trainyard/store';
import { holdWriters } from '@trainyard/store/testing';

import type { AdapterImporter, ExportQueue, InferenceBackend, TrainingQueue } from '../seams/contract/backends.ts';
import { createServer } from '../gateway/create-server.ts';
import { openLog } from '../seams/logging/open-log.ts';
import type { HttpLimits, ServerParts } from '../gateway/parts/server-parts.ts';
import type { RunTracking } from '../jobs/tracking/run-mirror.ts';
import { behindPort, IS_BEHIND_PORT } from './behind-port.ts';
import { refuseUndocumentedAnswers } from './documented-answers.ts';
import { noticeRefusal } from './guest-refusal.ts';
import { ScriptedInference } from './scripted-inference.ts';
import { openTestStore, releaseTestDatabase, testDatabase } from './test-store.ts';

/** Records the routes' calls of the worker. */
export class RecordingQueue implements TrainingQueue {
  baseModels: readonly string[] | null = null;
  limits: TrainerLimits | null = null;
  numNotified = 0;
  readonly stopped: string[] = [];
  healthy = true;
  notify(): void {
    this.numNotified += 1;
  }
  async stopJob(jobId: string): Promise<void> {
    this.stopped.push(jobId);
  }
  problem(): string | null {
    return this.healthy ? null : 'it is being started';
  }
}

/** Records the routes' calls of the export worker, and the uploads to commit. */
export class RecordingTransfers implements ExportQueue, AdapterImporter {
  numNotified = 0;
  readonly cancelled: string[] = [];
  /** Behaviour of `commit`. */
  onCommit: (adapter: Adapter) => Promise<Adapter> = async (adapter) => adapter;
  notify(): void {
    this.numNotified += 1;
  }
  cancelExport(exportId: string): void {
    this.cancelled.push(exportId);
  }
  cancelModel(modelId: string): void {
    this.cancelled.push(modelId);
  }
  cancelAdapter(adapterId: string): void {
    this.cancelled.push(adapterId);
  }
  commit(adapter: Adapter): Promise<Adapter> {
    return this.onCommit(adapter);
  }
}

/** HTTP over a real store and real blobs in a temporary folder; only sampling is scripted. */
export class TestServer<Inference extends InferenceBackend = ScriptedInference> {
  readonly app: FastifyInstance;
  readonly store: SqlStore;
  readonly blobs: FolderBlobs;
  readonly inference: Inference;
  readonly training: RecordingQueue;
  readonly transfers: RecordingTransfers;
  readonly key: string;
  readonly logged: string[];
  readonly #directory: string;
  readonly #closeInference: () => Promise<void>;
  /** True if another server owns the directory. */
  readonly #isGuest: boolean;

  private constructor(
    parts: Pick<
      TestServer<Inference>,
      'app' | 'store' | 'blobs' | 'inference' | 'training' | 'transfers' | 'key' | 'logged'
    > & {
      directory: string;
      closeInference: () => Promise<void>;
      isGuest: boolean;
    },
  ) {
    this.app = parts.app;
    this.store = parts.store;
    this.blobs = parts.blobs;
    this.inference = parts.inference;
    this.training = parts.training;
    this.transfers = parts.transfers;
    this.key = parts.key;
    this.logged = parts.logged;
    this.#directory = parts.directory;
    this.#closeInference = parts.closeInference;
    this.#isGuest = parts.isGuest;
  }

  static async start(
    limits: Partial<HttpLimits> = {},
    trainingDataDirectory: string | null = null,
  ): Promise<TestServer> {
    return TestServer.startOn(new ScriptedInference(), limits, trainingDataDirectory);
  }

  static async startOn<Inference extends InferenceBackend>(
    inference: Inference,
    limits: Partial<HttpLimits> = {},
    trainingDataDirectory: string | null = null,
    settings: Pick<
      ServerParts,
      | 'keepsChoiceRecords'
      | 'keepsAnswers'
      | 'bodyBudgets'
      | 'maxLogprobs'
      | 'logprobsMode'
      | 'dashboard'
      | 'guides'
      | 'tracing'
    > & {
      makeTracking?: (store: SqlStore) => RunTracking;
      /** Clock of the store. Default: the machine's, or the database's. */
      clock?: () => number;
      /** State shared with another server. Default: none; its own state is removed with it. */
      shared?: { readonly directory: string; readonly key: string; readonly instanceId: string };
    } = {},
  ): Promise<TestServer<Inference>> {
    const { makeTracking, shared, clock, ...parts } = settings;
    const directory = shared?.directory ?? (await mkdtemp(join(tmpdir(), 'trainyard-http-')));
    const store = await openTestStore(directory, {
      ...(clock === undefined ? {} : { clock }),
      ...(shared === undefined ? {} : { instanceId: shared.instanceId }),
    });
    const blobs = await FolderBlobs.open(join(directory, 'blobs'));
    const training = new RecordingQueue();
    const transfers = new RecordingTransfers();
    const logged: string[] = [];
    const behind = IS_BEHIND_PORT ? await behindPort(inference) : { inference, close: async () => undefined };
    const app = createServer({
      store,
      blobs,
      inference: behind.inference,
      training,
      exports: transfers,
      imports: transfers,
      limits,
      log: openLog({ format: 'text', role: 'all', instance: () => null }, (line) => logged.push(line)),
      trainingDataDirectory,
      ...parts,
      tracking: makeTracking?.(store) ?? null,
    });
    refuseUndocumentedAnswers(app);
    const key = shared?.key ?? (await makeKey(store, 'acme', ['inference', 'training']));
    const isGuest = shared !== undefined;
    const closeInference = behind.close;
    return new TestServer({
      app,
      store,
      blobs,
      inference,
      training,
      transfers,
      key,
      logged,
      directory,
      isGuest,
      closeInference,
    });
  }

  /** Another process of the same service, with the same database, blobs and keys. Close it before this one. */
  async startAnother(instanceId: string): Promise<TestServer> {
    const shared = { directory: this.#directory, key: this.key, instanceId };
    return TestServer.startOn(new ScriptedInference(), {}, null, { shared });
  }

  /** Also sends its runs to a tracker. */
  static async startTracked(makeTracking: (store: SqlStore) => RunTracking): Promise<TestServer> {
    return TestServer.startOn(new ScriptedInference(), {}, null, { makeTracking });
  }

  /** Blocks writers of the store, as another process in a transaction, until the result is called. */
  async holdWriters(): Promise<() => Promise<void>> {
    return await holdWriters(await testDatabase(this.#directory));
  }

  async makeKey(entity: string, scopes: Scope[]): Promise<string> {
    return makeKey(this.store, entity, scopes);
  }

  async request(
    method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE',
    url: string,
    body?: unknown,
    headers: Record<string, string> = {},
  ): Promise<LightMyRequestResponse> {
    const hasBody = body !== undefined;
    const answer = await this.app.inject({
      method,
      url,
      headers: {
        authorization: `Bearer ${this.key}`,
        ...(hasBody ? { 'content-type': 'application/json' } : {}),
        ...headers,
      },
      ...(hasBody ? { payload: typeof body === 'string' ? body : JSON.stringify(body) } : {}),
    });
    noticeRefusal(body, answer);
    return answer;
  }

  /** A chat request with one user message, plus `fields`. */
  async chat(
    fields: Record<string, unknown> = {},
    headers: Record<string, string> = {},
  ): Promise<LightMyRequestResponse> {
    return this.request(
      'POST',
      '/v1/chat/completions',
      { messages: [{ role: 'user', content: 'hello' }], ...fields },
      headers,
    );
  }

  /** Registers `acme/project/name` and returns its id. */
  async makeModel(name: string, project = 'demo'): Promise<string> {
    const response = await this.request('POST', '/v1/preview/models', {
      entity: null,
      project,
      name,
      base_model: 'tiny/base',
      return_existing: true,
    });
    if (response.statusCode !== 200) throw new Error(response.body);
    return response.json<{ id: string }>().id;
  }

  /** Finishes a job of the model with a checkpoint whose digest is 64 times `digit`; returns its step. */
  async addCheckpoint(modelId: string, digit: string): Promise<number> {
    const directoryKey = `checkpoints/${crypto.randomUUID()}`;
    await this.blobs.commitDirectory(await this.blobs.stageDirectory(), directoryKey);
    await this.store.jobs.enqueue({ modelId, kind: 'rl', config: {}, dataKey: `groups/${crypto.randomUUID()}` });
    const job = await this.store.jobs.claim('test', 60_000);
    if (!job) throw new Error('the queue is empty');
    const { checkpoint } = await this.store.jobs.succeed(job.id, job.fencingToken, {
      directoryKey,
      digest: digit.repeat(64),
      metrics: {},
    });
    return checkpoint.step;
  }

  /** Adds a finished export of the model's latest checkpoint with these files. */
  async addExport(modelId: string, contents: Record<string, string>): Promise<ModelExport> {
    const step = (await this.store.checkpoints.latest(modelId))?.step ?? 0;
    await this.store.exports.create({ modelId, step, format: 'merged-gguf', dtype: 'f16' });
    const job = await this.store.jobs.claim('test', 60_000, ['export']);
    if (!job) throw new Error('no export is queued');
    const staged = await this.blobs.stageDirectory();
    const files = [];
    for (const [name, content] of Object.entries(contents)) {
      await writeFile(join(staged, name), content);
      const sha256 = createHash('sha256').update(content).digest('hex');
      files.push({ name, sizeBytes: Buffer.byteLength(content), sha256 });
    }
    const directoryKey = `exports/${crypto.randomUUID()}`;
    await this.blobs.commitDirectory(staged, directoryKey);
    const parity = {
      numTokens: 256,
      meanDifference: 0.003,
      maxDifference: 0.02,
      computedBy: 'llama.cpp',
      adapterEffect: 1,
    };
    return (await this.store.exports.finish(job.id, job.fencingToken, { directoryKey, files, parity })).export;
  }

  /** Imports an upload, with the given content as the result of its check. */
  async importAdapter(adapterId: string, content: NonNullable<Adapter['content']>): Promise<void> {
    await this.store.adapters.enqueueImport(adapterId);
    const job = await this.store.jobs.claim('test', 60_000, ['import']);
    if (!job) throw new Error('no import is queued');
    await this.store.adapters.finishImport(job.id, job.fencingToken, content);
  }

  async close(): Promise<void> {
    // Clients keep idle connections open for longer than a test lasts.
    const closing = setInterval(() => this.app.server.closeIdleConnections(), 25);
    await this.app.close();
    clearInterval(closing);
    await this.#closeInference();
    await this.store.close();
    await this.blobs.close();
    if (this.#isGuest) return;
    await releaseTestDatabase(this.#directory);
    await rm(this.#directory, { recursive: true, force: true });
  }
}

async function makeKey(store: SqlStore, entity: string, scopes: Scope[]): Promise<string> {
  const { id: entityId } = await store.keys.ensureEntity(entity);
  return (await store.keys.create({ entityId, name: 'test', scopes })).secret;
}

/** A chunk, or the error that ended the stream. */
export type StreamedEvent = Partial<ChatCompletionChunk> & { error?: ErrorObject };

/** JSON events of a stream, and true if it ended with `[DONE]`. */
export function readEvents(body: string): { events: StreamedEvent[]; isDone: boolean } {
  const data = body
    .split('\n\n')
    .filter(Boolean)
    .map((event) => event.replace(/^data: /, ''));
  const isDone = data.at(-1) === '[DONE]';
  return { events: (isDone ? data.slice(0, -1) : data).map((event) => JSON.parse(event) as StreamedEvent), isDone };
}

/** Events of a stream with names. Each event's name must be its `type`. */
export function readNamedEvents<Event extends { type: string }>(body: string): Event[] {
  return body
    .split('\n\n')
    .filter(Boolean)
    .map((text) => {
      const [, name, data = ''] = /^event: (\S+)\ndata: (.*)$/.exec(text) ?? [];
      const event = JSON.parse(data) as Event;
      if (event.type !== name) throw new Error(`the event ${name} has the type ${event.type}`);
      return event;
    });
}
