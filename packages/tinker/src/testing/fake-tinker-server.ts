import { strict as assert } from 'node:assert';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import {
  EmbeddedLearner,
  LocalVersions,
  type LoraConfig,
  OrtPolicyModel,
  type TrainablePolicy,
  TrainerError,
} from '@trainyard/trainer';
import { BigramPolicy, randomSource, TINY_ARCHITECTURE, tinyWeights } from '@trainyard/trainer/testing';

import type { FakeDialect } from './fake-dialect.ts';
import { FakeModel } from './fake-model.ts';
import {
  type Answer,
  done,
  failed,
  json,
  type OperationResult,
  parsedOr,
  refuseCall,
  send,
  token,
} from './fake-answers.ts';
import type { AdamParams } from '../transport/remote-model.ts';
import { PROTOBUF_TYPE } from '../transport/tinker-http.ts';
import { fakeArchive } from './fake-tar.ts';
import { passOutputJson, passOutputProto, readPassJson, readPassProto, type ReceivedPass } from './server-wire.ts';

export type Fault =
  /** Answered with a status before anything is done. */
  | { readonly kind: 'status'; readonly status: number }
  /** Done, but the answer is lost. */
  | { readonly kind: 'lostReply' }
  /** It arrives twice. */
  | { readonly kind: 'twice' }
  /** Never answered. */
  | { readonly kind: 'silence' }
  /** A poll finds nothing yet. */
  | { readonly kind: 'pending' }
  /** A result is announced by its size first. */
  | { readonly kind: 'announced' };

export interface SeenRequest {
  readonly route: string;
  readonly body: unknown;
  readonly headers: IncomingMessage['headers'];
}

interface Operation {
  readonly requestId: string;
  readonly body: string;
  /** Settled once it has run. */
  readonly result: Promise<OperationResult>;
}

/** The adapter has that shape. */
export type FakePolicy = (lora: LoraConfig) => TrainablePolicy | Promise<TrainablePolicy>;

/** A table in closed form, whose adapter always has the same shape. */
export const bigramPolicy: FakePolicy = () => new BigramPolicy();

/** A transformer of two layers. */
export function tinyPolicy(): FakePolicy {
  const weights = tinyWeights(TINY_ARCHITECTURE, randomSource(11));
  return (lora) => new OrtPolicyModel(TINY_ARCHITECTURE, weights, { lora, numThreads: 1 });
}

const MODEL_NAME = 'tiny/llama';
const BARE_NAME =
  "Invalid checkpoint identifier. Expected format 'weights/<name>' (training weights) or 'sampler_weights/<name>' (sampler weights), where <name> is a single path segment.";
/** A poll without a result is held for this time. */
const POLL_MS = 20;

/**
 * A fake server over a real tiny model: the embedded learner computes losses, gradients, steps and adapters, so
 * that tests can compare numbers.
 */
export class FakeTinkerServer {
  readonly url: string;
  readonly dialect: FakeDialect;
  /** Requests as they arrived, including heartbeats and polls. */
  readonly seen: SeenRequest[] = [];
  /** Default: no faults. */
  fault: (request: SeenRequest) => Fault | null = () => null;
  models: readonly string[] = [MODEL_NAME];
  readonly #server: Server;
  readonly #root = mkdtempSync(join(tmpdir(), 'fake-tinker-'));
  readonly #policyOf: FakePolicy;
  #sessions = new Set<string>();
  #loaded = new Map<string, FakeModel>();
  /** All models so far. */
  #known = new Map<string, { readonly name: string; readonly rank: number }>();
  /** Number of operations of each model. */
  #used = new Map<string, number>();
  #saved = new Set<string>();
  #operations = new Map<string, Operation>();
  #numbered = new Map<string, Operation>();
  #queue: Promise<unknown> = Promise.resolve();
  /** Operations waiting for lower numbers. */
  #turns = new Map<string, { next: number; waiting: Map<number, () => void> }>();
  #numIds = 0;
  #announced = new Set<string>();

  static async start(dialect: FakeDialect, policyOf = bigramPolicy): Promise<FakeTinkerServer> {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return new FakeTinkerServer(server, dialect, policyOf);
  }

  private constructor(server: Server, dialect: FakeDialect, policyOf: FakePolicy) {
    this.#server = server;
    this.#policyOf = policyOf;
    this.dialect = dialect;
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    server.on('request', (request, response) => void this.#onRequest(request, response));
  }

  /** Models that occupy a slot. */
  get numLoaded(): number {
    return this.#loaded.size;
  }

  readonly executed: string[] = [];

  /** Restarts the computation: checkpoints stay, models are forgotten. */
  async restart(): Promise<void> {
    // Queued, so that operations arriving meanwhile find no model instead of a closed one.
    this.#queue = this.#queue
      .catch(() => undefined)
      .then(async () => {
        for (const model of this.#loaded.values()) await model.close();
        this.#loaded.clear();
      });
    await this.#queue;
  }

  /** Ends all sessions, as after a long silence. */
  endSessions(): void {
    this.#sessions.clear();
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
    await this.restart();
    rmSync(this.#root, { recursive: true, force: true });
  }

  async #onRequest(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const bytes = Buffer.concat(chunks);
    const route = request.url!.replace(/^\/api\/v1\//, '');
    const isProtobuf = request.headers['content-type'] === 'application/x-protobuf';
    const body = isProtobuf ? readPassProto(bytes) : parsedOr(bytes, null);
    const seen = { route, body, headers: request.headers };
    this.seen.push(seen);
    const fault = this.fault(seen);
    if (fault?.kind === 'silence') return;
    if (fault?.kind === 'status') return send(response, json({ detail: 'the server is busy' }, fault.status));
    try {
      if (fault?.kind === 'twice') await this.#answer(request, { route, body, bytes, isProtobuf, fault: null });
      const answer = await this.#answer(request, { route, body, bytes, isProtobuf, fault });
      if (fault?.kind === 'lostReply') return void response.destroy();
      send(response, answer);
    } catch (error) {
      send(response, json({ detail: String(error) }, 500));
    }
  }

  async #answer(request: IncomingMessage, call: Call): Promise<Answer> {
    const { route } = call;
    const { dialect } = this;
    const [first = '', ...rest] = route.split('?')[0]!.split('/');
    const refusal = this.#refuseKey(request, route) ?? refuseCall(request, first, call);
    if (refusal !== null) return refusal;
    switch (first) {
      case 'healthz':
        return json({ status: 'ok' });
      case 'client':
        return dialect.hasClientConfig && rest[0] === 'config'
          ? json({ pjwt_auth_enabled: dialect.hasTokens, ...(dialect.isSkyrl ? {} : { unknown_flag: 1 }) })
          : json({ detail: 'Not Found' }, 404);
      case 'auth':
        return json({ jwt: token() });
      case 'get_server_capabilities':
        return json({ supported_models: this.models.map((name) => ({ model_name: name })) });
      case 'create_session': {
        const id = this.#id('session_');
        this.#sessions.add(id);
        const messages = { info_message: null, warning_message: null, error_message: null };
        return json({ type: 'create_session', ...messages, session_id: id });
      }
      case 'session_heartbeat': {
        const { session_id: id } = call.body as { session_id: string };
        if (this.#sessions.has(id)) return json({ type: 'session_heartbeat' });
        return dialect.isSkyrl ? json({ detail: 'Session not found' }, 404) : json({ detail: 'Session ended' }, 410);
      }
      case 'sessions':
        return dialect.isSkyrl ? json({ detail: 'Not Found' }, 404) : json({});
      case 'telemetry':
        return json({ status: 'accepted' });
      case 'get_info':
        return this.#info((call.body as { model_id: string }).model_id);
      case 'create_model':
        return await this.#createModel(call.body as Record<string, unknown>);
      case 'unload_model':
        return await this.#unload(call.body as { model_id: string });
      case 'forward_backward':
      case 'forward':
        return this.#pass(call, first);
      case 'optim_step':
      case 'save_weights':
      case 'save_weights_for_sampler':
      case 'load_weights':
        return this.#modelOperation(call, first);
      case 'retrieve_future':
        return await this.#retrieve(request, call);
      case 'training_runs':
        return this.#checkpoint(request, rest);
      default:
        return json({ detail: 'Not Found' }, 404);
    }
  }

  #refuseKey(request: IncomingMessage, route: string): Answer | null {
    const { key, hasTokens } = this.dialect;
    if (key === null || route === 'healthz') return null;
    const given = request.headers['x-api-key'];
    const takesKey = !hasTokens || route === 'client/config' || route === 'auth/token';
    const isRight = takesKey ? given === key : typeof given === 'string' && given.startsWith('eyJ');
    return isRight ? null : json({ detail: 'invalid key' }, 401);
  }

  async #createModel(body: Record<string, unknown>): Promise<Answer> {
    if (!this.#sessions.has(body['session_id'] as string)) return json({ detail: 'Session not found' }, 404);
    const { rank, seed } = body['lora_config'] as { rank: number; seed: number };
    const { dialect } = this;
    const isHosted = dialect.modelIds === 'resulting';
    const id = isHosted ? `${String(body['session_id'])}:train:${String(body['model_seq_id'])}` : this.#id('model_');
    const model = { name: body['base_model'] as string, rank };
    this.#known.set(id, model);
    const operation = this.#enqueue(null, '', async () => {
      if (dialect.isSkyrl && !(rank > 0 && rank <= dialect.maxRank))
        return failed(`LoRA rank ${rank} must be between 1 and ${dialect.maxRank}`);
      if (this.#loaded.size >= dialect.slots)
        return failed(`Maximum number of LoRA adapters (${dialect.slots}) reached`);
      const lora = { rank, alpha: 32, targets: ['q', 'k', 'v', 'o', 'gate', 'up', 'down'], initSeed: seed } as const;
      const policy = await this.#policyOf(lora);
      const learner = new EmbeddedLearner({ policy, versions: new LocalVersions(this.#root) });
      await learner.load(null, { jobKind: 'rl' });
      for (const { half, value } of policy.lora.tensors)
        if (half === 'a') value.forEach((number, i) => (value[i] = number * dialect.initialScale));
      this.#loaded.set(id, new FakeModel(policy, learner, dialect));
      const layers = { train_attn: true, train_mlp: true, train_unembed: false };
      return dialect.isSkyrl
        ? done({ model_id: id, base_model: this.models[0], lora_config: { rank, alpha: 32, seed, ...layers } })
        : done({ type: 'create_model', model_id: id });
    });
    const early = { model_id: id, base_model: model.name, lora_config: { rank, seed }, status: 'created' };
    return json({ ...(isHosted ? {} : early), request_id: operation.requestId });
  }

  #info(id: string): Answer {
    const model = this.#known.get(id);
    if (model === undefined) return json({ detail: 'Model not found' }, 404);
    const { name, rank } = model;
    if (!this.dialect.isSkyrl)
      return json({ type: 'get_info', model_id: id, model_data: { model_name: name }, is_lora: true, lora_rank: rank });
    const data = { base_model: name, lora_config: { rank, seed: null }, model_name: name };
    return json({ model_id: id, status: 'created', model_data: data });
  }

  async #unload({ model_id: id }: { model_id: string }): Promise<Answer> {
    if (!this.#known.has(id)) return json({ detail: 'Model not found' }, 404);
    const operation = this.#enqueue(null, '', async () => {
      await this.#loaded.get(id)?.close();
      this.#loaded.delete(id);
      return done({ model_id: id, status: 'unloaded', type: 'unload_model' });
    });
    return json({ request_id: operation.requestId, model_id: id });
  }

  #pass(call: Call, route: string): Answer {
    const { wire } = this.dialect;
    if (wire === 'protobuf' && route === 'forward') return json({ detail: 'Not Found' }, 404);
    if (wire === 'protobuf' && !call.isProtobuf)
      return json({ detail: `forward_backward requires a ${PROTOBUF_TYPE} body (tinker SDK >= 0.25.0)` }, 415);
    if (wire === 'json' && call.isProtobuf) return json({ detail: 'Internal Server Error' }, 500);
    if (wire === 'json' && !('model_id' in (call.body as object))) return json({ detail: 'missing' }, 422);
    const pass = call.isProtobuf ? (call.body as ReceivedPass) : readPassJson(call.body);
    const place = { modelId: pass.modelId, seqId: pass.seqId, isRemembered: this.dialect.remembers !== 'nothing' };
    return this.#numberedOperation(place, call.bytes.toString('base64'), async (model) => {
      const output = await model.pass(pass);
      this.executed.push(pass.isForwardOnly ? 'forward' : `forward_backward:${pass.lossName}`);
      return { kind: 'pass', protobuf: passOutputProto(output), value: passOutputJson(output) };
    });
  }

  #modelOperation(call: Call, route: string): Answer {
    const body = call.body as { model_id: string; seq_id: number } & Record<string, unknown>;
    const { model_id: id, seq_id: seqId } = body;
    const { dialect } = this;
    const path = body['path'] as string;
    const isRemembered =
      dialect.remembers === 'everything' || (dialect.remembers === 'gradients' && route === 'optim_step');
    const refusal = this.#isRepeat(id, seqId, isRemembered) ? null : this.#refuseOperation(route, id, seqId, path);
    if (refusal !== null) return refusal;
    return this.#numberedOperation({ modelId: id, seqId, isRemembered, route }, JSON.stringify(body), async (model) => {
      this.executed.push(route);
      switch (route) {
        case 'optim_step':
          return await this.#step(model, body['adam_params'] as AdamParams);
        case 'save_weights':
          await model.learner.save(`${id}/weights/${path}`, { isServed: false });
          return done({ path: `tinker://${id}/weights/${path}`, type: route });
        case 'save_weights_for_sampler': {
          await model.learner.save(`${id}/sampler_weights/${path}`);
          const middle = dialect.samplerPath === 'short' ? '' : 'sampler_weights/';
          return done({ path: `tinker://${id}/${middle}${path}`, type: route, sampling_session_id: null });
        }
        case 'load_weights':
          await model.learner.load(path.replace('tinker://', ''), {
            jobKind: 'rl',
            withFreshOptimizer: body['optimizer'] !== true,
          });
          return done(dialect.isSkyrl ? { type: route } : { type: route, path });
        default:
          throw new Error(route);
      }
    });
  }

  async #step(model: FakeModel, params: AdamParams): Promise<OperationResult> {
    if (this.dialect.decays === 'refused' && params.weight_decay > 1) return failed('weight_decay must be <= 1');
    return done({ metrics: await model.step(params) });
  }

  #refuseOperation(route: string, id: string, seqId: number, path: string): Answer | null {
    if (!this.#isTaken(route, id)) return json({ detail: 'Model not found' }, 404);
    if (route === 'load_weights') {
      // Not the model's first operation.
      if ((this.#used.get(id) ?? 0) > 0)
        return json({ detail: `LoadWeights is not permitted with seq_id ${seqId}` }, 400);
      const [, owner, name] = /^tinker:\/\/([^/]+)\/weights\/([^/]+)$/.exec(path) ?? [];
      if (owner === undefined)
        return json({ detail: 'request.path must be in format tinker://source_model_id/weights/checkpoint_id' }, 400);
      if (this.dialect.isSkyrl && !this.#saved.has(`${owner}/weights/${name}`))
        return json({ detail: `Checkpoint not found: ${owner}/${name}` }, 404);
    }
    if (route.startsWith('save_weights')) {
      const checkpoint = `${id}/${route === 'save_weights' ? 'weights' : 'sampler_weights'}/${path}`;
      if (this.dialect.isSkyrl && this.#saved.has(checkpoint))
        return json({ detail: `Checkpoint '${path}' already exists for model '${id}'` }, 409);
      this.#saved.add(checkpoint);
    }
    return null;
  }

  /** SkyRL accepts saving the state of an unknown model, and fails later. */
  #isTaken(route: string, modelId: string): boolean {
    return this.#known.has(modelId) || (this.dialect.isSkyrl && route === 'save_weights');
  }

  #isRepeat(modelId: string, seqId: number, isRemembered: boolean): boolean {
    return isRemembered && this.#numbered.has(`${modelId} ${seqId}`);
  }

  /** Runs operations in the model's order. */
  #numberedOperation(
    {
      modelId,
      seqId,
      isRemembered,
      route = '',
    }: { modelId: string; seqId: number; isRemembered: boolean; route?: string },
    body: string,
    run: (model: FakeModel) => Promise<OperationResult>,
  ): Answer {
    if (!this.#isTaken(route, modelId)) return json({ detail: 'Model not found' }, 404);
    const key = `${modelId} ${seqId}`;
    const known = isRemembered ? this.#numbered.get(key) : undefined;
    if (known !== undefined) {
      if (known.body !== body) return json({ detail: 'Training request sequence number was reused' }, 409);
      return this.#acknowledged(known, modelId);
    }
    this.#used.set(modelId, (this.#used.get(modelId) ?? 0) + 1);
    const operation = this.#enqueue(this.dialect.order === 'number' ? { modelId, seqId } : null, body, async () => {
      const model = this.#loaded.get(modelId);
      if (model === undefined) return failed(`Model ${modelId} not loaded (likely stale request from previous server)`);
      return await run(model);
    });
    if (isRemembered) this.#numbered.set(key, operation);
    return this.#acknowledged(operation, modelId);
  }

  #acknowledged({ requestId }: Operation, modelId: string): Answer {
    if (!this.dialect.isSkyrl) return json({ request_id: requestId, model_id: modelId });
    return json({ future_id: requestId, status: 'pending', request_id: requestId });
  }

  #enqueue(
    turn: { modelId: string; seqId: number } | null,
    body: string,
    run: () => Promise<OperationResult>,
  ): Operation {
    const safely = async (): Promise<OperationResult> => {
      try {
        return await run();
      } catch (error) {
        assert(error instanceof TrainerError, error as Error);
        return failed(error.code === 'trainer.checkpoint_unreadable' ? 'Checkpoint not found' : error.message);
      }
    };
    const begins = turn === null ? Promise.resolve() : this.#turnOf(turn);
    const result = begins.then(() => {
      const ran = this.#queue.then(safely);
      this.#queue = ran;
      return ran;
    });
    if (turn !== null) void result.then(() => this.#endTurn(turn));
    const operation = { requestId: String(++this.#numIds), body, result };
    this.#operations.set(operation.requestId, operation);
    return operation;
  }

  async #turnOf({ modelId, seqId }: { modelId: string; seqId: number }): Promise<void> {
    const turns = this.#turns.get(modelId) ?? { next: 1, waiting: new Map<number, () => void>() };
    this.#turns.set(modelId, turns);
    if (seqId <= turns.next) return;
    await new Promise<void>((resolve) => turns.waiting.set(seqId, resolve));
  }

  #endTurn({ modelId, seqId }: { modelId: string; seqId: number }): void {
    const turns = this.#turns.get(modelId)!;
    turns.next = Math.max(turns.next, seqId + 1);
    turns.waiting.get(turns.next)?.();
    turns.waiting.delete(turns.next);
  }

  async #retrieve(request: IncomingMessage, { body, fault }: Call): Promise<Answer> {
    const { request_id: id, allow_metadata_only: metadata } = body as {
      request_id: string;
      allow_metadata_only?: boolean;
    };
    const operation = this.#operations.get(id);
    if (operation === undefined) return json({ detail: 'Future not found' }, 404);
    const { dialect } = this;
    const pending =
      dialect.pending === 'timeout'
        ? json({ detail: 'Timeout waiting for result' }, 408)
        : json({ type: 'try_again', queue_state: 'active' });
    if (fault?.kind === 'pending') return pending;
    const late = new Promise<null>((resolve) => setTimeout(resolve, POLL_MS, null));
    const result = await Promise.race([operation.result, late]);
    if (result === null) return pending;
    if (result.kind === 'failed')
      return dialect.failures === 'status'
        ? json({ detail: result.message }, 400)
        : json({ error: result.message, category: 'user' });
    if (fault?.kind === 'announced' && metadata !== false) this.#announced.add(id);
    if (this.#announced.has(id) && metadata !== false)
      return json({ status: 'complete_metadata', response_payload_size: 1 });
    if (result.kind === 'json') return json(result.value);
    // SkyRL does so for every request.
    const wantsProtobuf = dialect.isSkyrl || request.headers.accept === PROTOBUF_TYPE;
    if (dialect.wire === 'protobuf' && wantsProtobuf)
      return { status: 200, type: PROTOBUF_TYPE, body: result.protobuf };
    return json(result.value);
  }

  #checkpoint(request: IncomingMessage, [runId = '', , ...rest]: string[]): Answer {
    const { isSkyrl, archiveName } = this.dialect;
    const missing = (name: string): Answer => json({ detail: `Checkpoint not found: ${runId}/${name}` }, 404);
    if (request.method === 'DELETE') {
      if (rest.length < 2) return json({ detail: BARE_NAME }, 400);
      const checkpoint = [runId, ...rest].join('/');
      if (isSkyrl && !this.#saved.has(checkpoint)) return missing(rest[1]!);
      this.#saved.delete(checkpoint);
      rmSync(join(this.#root, checkpoint), { recursive: true, force: true });
      return { status: 204, body: new Uint8Array(0) };
    }
    const last = rest.at(-1)!;
    const name = rest.at(-2)!;
    const isWanted = rest.length === (archiveName === 'bare' || last === 'download' ? 2 : 3);
    if (!isWanted) return isSkyrl ? json({ detail: 'Method Not Allowed' }, 405) : json({ detail: 'Not Found' }, 404);
    if (isSkyrl && !this.#saved.has(`${runId}/sampler_weights/${name}`)) return missing(name);
    if (last === 'archive') {
      const location = `${this.url}/api/v1/training_runs/${runId}/checkpoints/${name}/download`;
      return { status: 302, type: null, headers: { location }, body: new Uint8Array(0) };
    }
    const folder = join(this.#root, runId, 'sampler_weights', name);
    const config = JSON.parse(readFileSync(join(folder, 'adapter_config.json'), 'utf8')) as object;
    const files = {
      'adapter_config.json': Buffer.from(JSON.stringify({ ...config, target_modules: null })),
      'adapter_model.safetensors': readFileSync(join(folder, 'adapter_model.safetensors')),
    };
    return { status: 200, type: 'application/octet-stream', body: fakeArchive(files) };
  }

  #id(prefix: string): string {
    return `${prefix}${(++this.#numIds).toString(16).padStart(8, '0')}`;
  }
}

interface Call {
  readonly route: string;
  readonly body: unknown;
  readonly bytes: Buffer;
  readonly isProtobuf: boolean;
  readonly fault: Fault | null;
}
