import type { Datum, LossName } from '../wire/datum.ts';
import { readAdapterArchive } from '../driver/adapter-archive.ts';
import { decodePassResult, encodePass } from '../wire/pass-proto.ts';

/** `$name` in the route and body is replaced by the value of an earlier answer. */
interface Line {
  readonly name: string;
  readonly method?: 'GET' | 'POST' | 'DELETE';
  readonly route: string;
  /** JSON, or a text that is not JSON. */
  readonly body?: object | string;
  /** A pass in protobuf instead of a body. */
  readonly pass?: {
    readonly model: string;
    readonly seqId: number;
    readonly lossName: LossName;
    readonly isForwardOnly: boolean;
  };
  /** Values of the answer to keep: name → key. */
  readonly keeps?: Readonly<Record<string, string>>;
}

/** An answer without ids and numbers: only the server's dialect. */
export interface Exchange {
  readonly name: string;
  readonly status: number;
  readonly contentType: string | null;
  /** Clients take a 400 without a length for a proxy's. */
  readonly hasLength: boolean;
  readonly body: unknown;
}

const SESSION = { tags: ['recorded'], user_metadata: {}, sdk_version: '0.25.0' };
const LORA = { rank: 4, seed: 7 };
const STEP = { learning_rate: 0.01, beta1: 0.9, beta2: 0.95, eps: 1e-8, weight_decay: 0 };
const poll = (name: string, request: string): Line => ({
  name,
  route: 'retrieve_future',
  body: { request_id: request },
});
const forward = { lossName: 'cross_entropy', isForwardOnly: true } as const;
const backward = { lossName: 'cross_entropy', isForwardOnly: false } as const;

/** A model's life with all possible mistakes, in order. */
const LINES: readonly Line[] = [
  { name: 'health', method: 'GET', route: 'healthz' },
  { name: 'a method that no route has', method: 'GET', route: 'create_session' },
  { name: 'a route that is not there', route: 'no_such_route', body: {} },
  { name: 'flags', route: 'client/config', body: { sdk_version: '0.25.0' } },
  { name: 'later flags', route: 'client/dynamic_config', body: { sdk_version: '0.25.0' } },
  { name: 'a body that is no JSON', route: 'create_session', body: '{"tags"' },
  { name: 'a session without its fields', route: 'create_session', body: {} },
  { name: 'a session', route: 'create_session', body: SESSION, keeps: { session: 'session_id' } },
  { name: 'a heartbeat', route: 'session_heartbeat', body: { session_id: '$session' } },
  { name: 'a heartbeat of no session', route: 'session_heartbeat', body: { session_id: 'session_00000000' } },
  {
    name: 'a model of no session',
    route: 'create_model',
    body: { session_id: 'session_00000000', base_model: 'any', lora_config: LORA },
  },
  { name: 'a model without its fields', route: 'create_model', body: { session_id: '$session' } },
  {
    name: 'a model',
    route: 'create_model',
    body: { session_id: '$session', model_seq_id: 0, base_model: 'any', lora_config: LORA, type: 'create_model' },
    keeps: { model: 'model_id', request: 'request_id' },
  },
  poll('the model is there', '$request'),
  { name: 'about the model', route: 'get_info', body: { model_id: '$model', type: 'get_info' } },
  { name: 'about no model', route: 'get_info', body: { model_id: 'model_00000000' } },
  { name: 'a pass in JSON', route: 'forward_backward', body: {} },
  { name: 'the older route of passes', route: 'forward', body: {} },
  { name: 'a pass of no model', route: 'forward_backward', pass: { ...forward, model: 'model_00000000', seqId: 1 } },
  {
    name: 'a pass without gradients',
    route: 'forward_backward',
    pass: { ...forward, model: '$model', seqId: 1 },
    keeps: { request: 'request_id' },
  },
  poll('its result', '$request'),
  {
    name: 'a pass',
    route: 'forward_backward',
    pass: { ...backward, model: '$model', seqId: 2 },
    keeps: { request: 'request_id' },
  },
  { name: 'the same once more', route: 'forward_backward', pass: { ...backward, model: '$model', seqId: 2 } },
  { name: 'another one under its number', route: 'forward_backward', pass: { ...forward, model: '$model', seqId: 2 } },
  poll('the result of the pass', '$request'),
  {
    name: 'a step',
    route: 'optim_step',
    body: { model_id: '$model', seq_id: 3, adam_params: STEP, type: 'optim_step' },
    keeps: { request: 'request_id' },
  },
  poll('the result of the step', '$request'),
  {
    name: 'a step of no model',
    route: 'optim_step',
    body: { model_id: 'model_00000000', seq_id: 1, adam_params: STEP },
  },
  { name: 'a step without its fields', route: 'optim_step', body: { model_id: '$model' } },
  {
    name: 'a state is saved',
    route: 'save_weights',
    body: { model_id: '$model', seq_id: 4, path: 'first', type: 'save_weights' },
    keeps: { request: 'request_id' },
  },
  poll('where it is', '$request'),
  {
    name: 'the same state once more, under its number',
    route: 'save_weights',
    body: { model_id: '$model', seq_id: 4, path: 'first', type: 'save_weights' },
  },
  {
    name: 'a state of no model',
    route: 'save_weights',
    body: { model_id: 'model_00000000', seq_id: 1, path: 'first' },
  },
  {
    name: 'an adapter is saved',
    route: 'save_weights_for_sampler',
    body: { model_id: '$model', seq_id: 5, path: 'adapter', type: 'save_weights_for_sampler' },
    keeps: { request: 'request_id' },
  },
  poll('where the adapter is', '$request'),
  { name: 'its archive', method: 'GET', route: 'training_runs/$model/checkpoints/adapter/archive' },
  {
    name: 'its archive by its kind',
    method: 'GET',
    route: 'training_runs/$model/checkpoints/sampler_weights/adapter/archive',
  },
  { name: 'its files', method: 'GET', route: 'training_runs/$model/checkpoints/adapter/download' },
  { name: 'an archive that is not there', method: 'GET', route: 'training_runs/$model/checkpoints/other/archive' },
  { name: 'a deletion without a kind', method: 'DELETE', route: 'training_runs/$model/checkpoints/adapter' },
  { name: 'a deletion', method: 'DELETE', route: 'training_runs/$model/checkpoints/sampler_weights/adapter' },
  { name: 'the same deletion', method: 'DELETE', route: 'training_runs/$model/checkpoints/sampler_weights/adapter' },
  {
    name: 'a load into a model that was used',
    route: 'load_weights',
    body: { model_id: '$model', seq_id: 6, path: 'tinker://$model/weights/first', optimizer: true },
  },
  {
    name: 'a second model',
    route: 'create_model',
    body: { session_id: '$session', model_seq_id: 1, base_model: 'any', lora_config: LORA, type: 'create_model' },
    keeps: { second: 'model_id', request: 'request_id' },
  },
  poll('the second model is there', '$request'),
  {
    name: 'a load of a missing checkpoint',
    route: 'load_weights',
    body: { model_id: '$second', seq_id: 1, path: 'tinker://$model/weights/other', optimizer: true },
  },
  {
    name: 'a load of an invalid address',
    route: 'load_weights',
    body: { model_id: '$second', seq_id: 1, path: 'first', optimizer: true },
  },
  {
    name: 'a load',
    route: 'load_weights',
    body: {
      model_id: '$second',
      seq_id: 1,
      path: 'tinker://$model/weights/first',
      optimizer: true,
      type: 'load_weights',
    },
    keeps: { request: 'request_id' },
  },
  poll('it is loaded', '$request'),
  {
    name: 'the same load once more, under its number',
    route: 'load_weights',
    body: {
      model_id: '$second',
      seq_id: 1,
      path: 'tinker://$model/weights/first',
      optimizer: true,
      type: 'load_weights',
    },
  },
  poll('a result of nothing', '999999'),
  { name: 'a result without its number', route: 'retrieve_future', body: {} },
  {
    name: 'an unloading',
    route: 'unload_model',
    body: { model_id: '$second', type: 'unload_model' },
    keeps: { request: 'request_id' },
  },
  poll('it is unloaded', '$request'),
  {
    name: 'a step of a model that is unloaded',
    route: 'optim_step',
    body: { model_id: '$second', seq_id: 2, adam_params: STEP, type: 'optim_step' },
    keeps: { request: 'request_id' },
  },
  poll('its failure', '$request'),
  { name: 'an unloading of no model', route: 'unload_model', body: { model_id: 'model_00000000' } },
  {
    name: 'the end of the session',
    route: 'sessions/$session/finish',
    body: { reason: { type: 'success' }, detail: null },
  },
  { name: 'the last unloading', route: 'unload_model', body: { model_id: '$model' } },
];

const DATUMS: readonly Datum[] = [
  {
    tokens: Int32Array.of(3, 9, 14, 20),
    inputs: { target_tokens: Int32Array.of(9, 14, 20, 31), weights: Float32Array.of(0, 1, 1, 1) },
  },
  {
    tokens: Int32Array.of(17, 2, 45, 23),
    inputs: { target_tokens: Int32Array.of(2, 45, 23, 8), weights: Float32Array.of(1, 1, 1, 1) },
  },
];

/** @param url without `/api/v1` */
export async function converse(url: string): Promise<Exchange[]> {
  const kept = new Map<string, string>();
  const filled = (text: string): string =>
    [...kept].reduce((filling, [name, value]) => filling.replaceAll(`$${name}`, value), text);
  const exchanges: Exchange[] = [];
  for (const { name, method = 'POST', route, body, pass, keeps = {} } of LINES) {
    const content =
      pass === undefined
        ? body === undefined
          ? null
          : filled(typeof body === 'string' ? body : JSON.stringify(body))
        : (encodePass({ ...pass, modelId: filled(pass.model), datums: DATUMS }) as Uint8Array<ArrayBuffer>);
    const type = pass === undefined ? 'application/json' : 'application/x-protobuf';
    const reply = await fetch(`${url}/api/v1/${filled(route)}`, {
      method,
      redirect: 'manual',
      headers: content === null ? {} : { 'content-type': type },
      body: content,
    });
    const bytes = new Uint8Array(await reply.arrayBuffer());
    const contentType = reply.headers.get('content-type');
    const hasLength = Number(reply.headers.get('content-length') ?? 0) > 0;
    exchanges.push({ name, status: reply.status, contentType, hasLength, body: shapeOf(bytes, contentType) });
    if (Object.keys(keeps).length === 0) continue;
    const answered = JSON.parse(Buffer.from(bytes).toString('utf8')) as Record<string, string>;
    for (const [key, field] of Object.entries(keeps)) kept.set(key, answered[field]!);
  }
  return exchanges;
}

interface Config {
  readonly r: number;
  readonly lora_alpha: number;
  readonly target_modules: unknown;
}

function shapeOf(bytes: Uint8Array, contentType: string | null): unknown {
  if (bytes.length === 0) return null;
  if (contentType === 'application/x-protobuf') {
    const { logprobs, metrics } = decodePassResult(bytes);
    return { logprobs: logprobs.map(({ length }) => length), metrics: Object.keys(metrics).toSorted() };
  }
  if (contentType === 'application/octet-stream') {
    const { r, lora_alpha: alpha, target_modules: targets } = JSON.parse(readAdapterArchive(bytes).config) as Config;
    return shapeOfJson({ r, alpha, targets });
  }
  const text = Buffer.from(bytes).toString('utf8');
  try {
    return shapeOfJson(JSON.parse(text));
  } catch {
    return text;
  }
}

/** Replaces ids by their kind and numbers by their type. */
function shapeOfJson(value: unknown): unknown {
  if (typeof value === 'number') return 'number';
  if (typeof value === 'string') return plain(value);
  if (Array.isArray(value)) return value.map(shapeOfJson);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, shapeOfJson(member)]));
}

function plain(text: string): string {
  return text
    .replaceAll(/\b(session|model)_[0-9a-f]{8}\b/g, '$1_…')
    .replaceAll(/^\d+$/g, 'digits')
    .replaceAll(/^(?:\/.*|tiny\/llama)$/g, 'a name');
}
