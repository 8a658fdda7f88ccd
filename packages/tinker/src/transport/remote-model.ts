import type { LoraConfig } from '@trainyard/trainer';

import { type Datum, datumBytes, type LossName, type PassResult } from '../wire/datum.ts';
import { asObject, asText } from '../wire/json-value.ts';
import { passBody, readMetrics, readPassResult, readPath } from '../wire/pass-json.ts';
import { decodePassResult, encodePass } from '../wire/pass-proto.ts';
import { wireFault } from '../wire/wire-fault.ts';
import { awaitFuture, type FutureResult } from './future.ts';
import type { ModelJournal } from './model-journal.ts';
import type { ServerFacts } from './server-facts.ts';
import type { TinkerSession } from './session.ts';
import { jsonOf } from './tinker-http.ts';

export interface ModelParts {
  readonly session: TinkerSession;
  readonly facts: ServerFacts;
  readonly journal: ModelJournal;
  readonly operationTimeoutMs: number;
  readonly log: (line: string) => void;
}

/** Names of the protocol. */
export interface AdamParams {
  readonly learning_rate: number;
  readonly beta1: number;
  readonly beta2: number;
  readonly eps: number;
  readonly weight_decay: number;
  /** 0: off. */
  readonly grad_clip_norm: number;
}

export const RESTING: AdamParams = {
  learning_rate: 0,
  beta1: 0,
  beta2: 0,
  eps: 1,
  weight_decay: 0,
  grad_clip_norm: 0,
};

export interface Checkpoint {
  readonly kind: 'weights' | 'sampler_weights';
  readonly runId: string;
  readonly name: string;
}

export interface CallSignal {
  readonly signal?: AbortSignal | undefined;
}

/**
 * One adapter on a server. Each request is acknowledged before the next is posted, because a server may execute
 * them in the order of arrival; callers wait for results separately.
 */
export class RemoteModel {
  readonly id: string;
  readonly #parts: ModelParts;
  /** Acknowledged requests. */
  numRequests = 0;

  /** @throws {TrainerError} `trainer.remote_unavailable` if the server has no slot; `trainer.checkpoint_unreadable` */
  static async create(
    parts: ModelParts,
    lora: LoraConfig,
    options: { readonly index: number; readonly from: string | null; readonly withOptimizer: boolean } & CallSignal,
  ): Promise<RemoteModel> {
    const { session, facts, journal } = parts;
    const { index, from, withOptimizer, signal } = options;
    const trains = (layer: 'q' | 'gate'): boolean => lora.targets.includes(layer);
    const body = {
      type: 'create_model',
      session_id: session.id,
      model_seq_id: index,
      base_model: facts.baseModel,
      lora_config: {
        rank: lora.rank,
        seed: lora.initSeed,
        train_attn: trains('q'),
        train_mlp: trains('gate'),
        train_unembed: false,
      },
      user_metadata: null,
    };
    // A duplicate model would take a slot until its session ends.
    const reply = await session.post('create_model', body, { isRepeatable: false, ...given(signal) });
    const created = asObject(jsonOf(reply), 'create_model');
    // SkyRL's acknowledgement has the id, so the model must be unloaded from here on.
    const early = typeof created['model_id'] === 'string' ? created['model_id'] : null;
    if (early !== null) journal.opened({ url: facts.http.url, modelId: early });
    let model = early === null ? null : new RemoteModel(early, parts);
    try {
      const requestId = asText(created['request_id'], 'request_id');
      const result = await awaitFuture(session, requestId, { ...waiting(parts, 'CreateModel'), ...given(signal) });
      const { model_id: late } = result.kind === 'json' ? asObject(result.value, 'a model') : {};
      if (model === null) {
        model = new RemoteModel(asText(late, 'model_id'), parts);
        journal.opened({ url: facts.http.url, modelId: model.id });
      }
      if (from !== null) await model.#load(from, withOptimizer, signal);
      return model;
    } catch (error) {
      await model?.unload();
      throw error;
    }
  }

  private constructor(id: string, parts: ModelParts) {
    this.id = id;
    this.#parts = parts;
  }

  /** @returns a function that waits for the pass's result */
  async pass(
    datums: readonly Datum[],
    { lossName, isForwardOnly, signal }: { lossName: LossName; isForwardOnly: boolean } & CallSignal,
  ): Promise<() => Promise<PassResult>> {
    const waits: (() => Promise<PassResult>)[] = [];
    for (const part of this.#partsOf(datums))
      waits.push(await this.#postPass(part, { lossName, isForwardOnly, signal }));
    return async () => {
      const results: PassResult[] = [];
      for (const wait of waits) results.push(await wait());
      return {
        logprobs: results.flatMap(({ logprobs }) => logprobs),
        metrics: Object.assign({}, ...results.map(({ metrics }) => metrics)) as Record<string, number>,
      };
    };
  }

  /** @returns a function that waits for the step's metrics */
  async step(params: AdamParams, { signal }: CallSignal = {}): Promise<() => Promise<Record<string, number>>> {
    const wait = await this.#post('optim_step', { type: 'optim_step', adam_params: params }, 'OptimStep', signal);
    return async () => readMetrics(asObject(await wait(), 'a step')['metrics']);
  }

  /** Saves weights and optimizer; a lifetime of null: until deleted. @returns the address */
  async saveState(
    name: string,
    { lifetimeSeconds, signal }: { lifetimeSeconds: number | null } & CallSignal,
  ): Promise<string> {
    const lifetime = lifetimeSeconds === null ? {} : { ttl_seconds: lifetimeSeconds };
    const body = { type: 'save_weights', path: name, ...lifetime };
    const wait = await this.#post('save_weights', body, 'SaveWeights', signal);
    return addressOf(this.#checkpoint('weights', readPath(await wait())));
  }

  /** Provides an archive of the weights. */
  async saveForSampler(name: string, { signal }: CallSignal = {}): Promise<Checkpoint> {
    const body = { type: 'save_weights_for_sampler', path: name };
    const wait = await this.#post('save_weights_for_sampler', body, 'SaveWeightsForSampler', signal);
    return this.#checkpoint('sampler_weights', readPath(await wait()));
  }

  /** Never throws. */
  async unload(): Promise<void> {
    const { facts, journal } = this.#parts;
    await unloadModel(facts, this.id);
    journal.closed({ url: facts.http.url, modelId: this.id });
  }

  /** Addresses have their kind in the middle, or none. */
  #checkpoint(kind: Checkpoint['kind'], path: string): Checkpoint {
    return readAddress(path) ?? { kind, runId: this.id, name: path.slice(path.lastIndexOf('/') + 1) };
  }

  async #load(path: string, withOptimizer: boolean, signal: AbortSignal | undefined): Promise<void> {
    const body = { type: 'load_weights', path, optimizer: withOptimizer };
    await (
      await this.#post('load_weights', body, 'LoadWeights', signal)
    )();
  }

  async #postPass(
    datums: readonly Datum[],
    { lossName, isForwardOnly, signal }: { lossName: LossName; isForwardOnly: boolean } & CallSignal,
  ): Promise<() => Promise<PassResult>> {
    const { facts } = this.#parts;
    const request = { modelId: this.id, seqId: this.#nextSeqId(), datums, lossName, isForwardOnly };
    const isProtobuf = facts.wire === 'protobuf';
    const route = isForwardOnly && !isProtobuf ? 'forward' : 'forward_backward';
    const body = isProtobuf ? encodePass(request) : passBody(request);
    const kind = isForwardOnly ? 'Forward' : 'ForwardBackward';
    // Log-probabilities may be computed twice; a gradient added twice would be wrong.
    const canRepeat = isForwardOnly || facts.profile.remembers !== 'nothing';
    const wait = await this.#submit(route, body, { kind, canRepeat, isProtobuf, signal });
    return async () => {
      const result = await wait();
      const pass = result.kind === 'protobuf' ? decodePassResult(result.bytes) : readPassResult(result.value);
      if (pass.logprobs.length !== datums.length)
        throw wireFault(`a pass over ${datums.length} datums has ${pass.logprobs.length} results`);
      return pass;
    };
  }

  async #post(
    route: string,
    body: object,
    kind: string,
    signal: AbortSignal | undefined,
  ): Promise<() => Promise<unknown>> {
    const numbered = { model_id: this.id, seq_id: this.#nextSeqId(), ...body };
    const { remembers } = this.#parts.facts.profile;
    const canRepeat = remembers === 'everything' || (remembers === 'gradients' && route === 'optim_step');
    const wait = await this.#submit(route, numbered, { kind, canRepeat, isProtobuf: false, signal });
    return async () => {
      const result = await wait();
      if (result.kind === 'json') return result.value;
      throw wireFault(`the result of ${kind} is protobuf instead of JSON`);
    };
  }

  async #submit(
    route: string,
    body: object | Uint8Array,
    options: { kind: string; canRepeat: boolean; isProtobuf: boolean } & CallSignal,
  ): Promise<() => Promise<FutureResult>> {
    const { session } = this.#parts;
    const { kind, canRepeat, isProtobuf, signal } = options;
    const reply = await session.post(route, body, { isRepeatable: canRepeat, ...given(signal) });
    const requestId = asText(asObject(jsonOf(reply), route)['request_id'], 'request_id');
    this.numRequests++;
    return async () =>
      await awaitFuture(session, requestId, { ...waiting(this.#parts, kind), isProtobuf, ...given(signal) });
  }

  #nextSeqId(): number {
    const { journal, facts } = this.#parts;
    return journal.nextSeqId({ url: facts.http.url, modelId: this.id });
  }

  #partsOf(datums: readonly Datum[]): Datum[][] {
    const { maxDatums, maxBytes } = this.#parts.facts;
    const parts: Datum[][] = [[]];
    let bytes = 0;
    for (const datum of datums) {
      const size = datumBytes(datum);
      const part = parts.at(-1)!;
      const isFull = part.length >= maxDatums || (part.length > 0 && bytes + size > maxBytes);
      if (isFull) parts.push([datum]);
      else part.push(datum);
      bytes = isFull ? size : bytes + size;
    }
    return parts;
  }
}

/** Unloads a model whose session may be over. Never throws. */
export async function unloadModel({ http }: Pick<ServerFacts, 'http'>, modelId: string): Promise<void> {
  const body = { type: 'unload_model', model_id: modelId };
  await http.sendOnce('POST', 'unload_model', { body, timeoutMs: 10_000 }).catch(() => undefined);
}

/** Formats `tinker://<run>/<kind>/<name>`. */
export function addressOf({ kind, runId, name }: Checkpoint): string {
  return `tinker://${runId}/${kind}/${name}`;
}

/** Null for other strings. */
export function readAddress(address: string): Checkpoint | null {
  const [, runId, kind, name] = /^tinker:\/\/([^/]+)\/(weights|sampler_weights)\/([^/]+)$/.exec(address) ?? [];
  if (runId === undefined || name === undefined) return null;
  return { kind: kind as Checkpoint['kind'], runId, name };
}

function waiting({ operationTimeoutMs, log }: ModelParts, kind: string) {
  const onQueued = (state: string): void => log(`the Tinker server queued ${kind}: ${state}`);
  return { kind, deadlineMs: operationTimeoutMs, onQueued };
}

function given(signal: AbortSignal | undefined): { signal?: AbortSignal } {
  return signal === undefined ? {} : { signal };
}
