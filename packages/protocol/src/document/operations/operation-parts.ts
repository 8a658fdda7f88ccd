import type { TObject, TSchema } from 'typebox';

/** Scope required of a key; `public` routes need no key, `any` accepts every valid one. */
export type OperationScope = 'public' | 'any' | 'inference' | 'training' | 'admin';

/** One operation of the API: its input, answers and faults. */
export interface Operation {
  /** Unique; method name in generated clients. */
  readonly id: string;
  readonly method: 'get' | 'post' | 'put' | 'patch' | 'delete';
  /** Equivalent path templates, the canonical one first. */
  readonly paths: readonly [string, ...string[]];
  readonly scope: OperationScope;
  readonly tag: 'Inference' | 'Training' | 'Service';
  readonly summary: string;
  readonly description: string;
  readonly pathParameters?: Readonly<Record<string, string>>;
  readonly query?: TObject;
  /** True if `Idempotency-Key` makes a repeat harmless. */
  readonly isIdempotent?: boolean;
  readonly body?: TSchema;
  /** A body other than JSON: a file of one of these types. */
  readonly upload?: { readonly mediaTypes: readonly string[]; readonly description: string };
  /** Answer with status 200; text if only a media type is given. */
  readonly answer: TSchema | { readonly mediaType: string; readonly otherMediaTypes?: readonly string[] };
  /** Events of a stream, for requests with `stream: true`. */
  readonly chunk?: TSchema;
  /** True if the events of the stream have names; the stream then has no `[DONE]`. */
  readonly isNamedStream?: boolean;
  /** Error within the stream. Default `StreamError`. */
  readonly streamError?: TSchema;
  /** Body of an error. Default `ErrorBody`. */
  readonly error?: TSchema;
  /** Successful answers with a status other than 200. */
  readonly otherAnswers?: Readonly<Record<number, { readonly description: string; readonly schema?: TSchema }>>;
  /** Codes of its faults; the table of faults has their statuses. */
  readonly faults: readonly string[];
}

/** True if the routes of a path refuse unknown query parameters. */
export function refusesOtherQueries(path: string): boolean {
  return /^\/v1\/(?:preview|keys)(?:\/|$)/.test(path);
}

export const EVERY_ROUTE = ['request.malformed', 'request.headers_too_large', 'request.host_not_allowed', 'internal'];
export const STORE = ['store.busy', 'store.unavailable', 'store.closed', 'store.corrupt'];
export const WRITES = ['store.disk_full', 'store.constraint_violated'];
export const KEY = ['request.unauthenticated', 'request.forbidden', ...STORE, ...EVERY_ROUTE];
export const BODY = [
  'request.invalid_json',
  'request.invalid',
  'request.body_too_large',
  'request.unsupported_media_type',
  'request.timeout',
  'request.too_many',
];
export const IDEMPOTENCY = ['request.idempotency_mismatch', 'request.idempotency_in_progress', ...WRITES];
export const MODEL_NAME = ['request.unknown_model', 'request.ambiguous_model', 'request.conflict'];
export const HOST = ['server.unavailable', 'engine.host_lost', 'engine.internal'];
/** Faults of requests that render a prompt, or read one as tokens, without sampling. */
export const RENDERING = [
  ...MODEL_NAME,
  ...HOST,
  'request.unsupported',
  'engine.template_failed',
  'context_length_exceeded',
];
export const SAMPLING = [
  ...MODEL_NAME,
  ...HOST,
  'request.unsupported',
  'context_length_exceeded',
  'engine.invalid_request',
  'engine.constraint_exhausted',
  'engine.no_token_left',
  'engine.template_failed',
  'engine.overloaded',
  'rate_limit_exceeded',
  'engine.aborted',
  'engine.adapter_unreadable',
  'engine.adapter_damaged',
  'engine.model_damaged',
];
export const LIST = ['request.not_found', 'request.invalid', 'store.cursor_unknown'];

export const RESPONSE_ID = { response_id: 'Id of a kept answer.' };
export const MODEL_ID = { model_id: 'Id of the model, from its registration.' };
export const ARTIFACT_NAME = {
  entity: "The key's own entity.",
  project: 'Groups artifacts.',
  name: 'Unique in its project.',
};
export const ARTIFACT_VERSION = { ...ARTIFACT_NAME, version: '`vN`, or `latest` for the newest existing version.' };
export const EXPORT_ID = { ...MODEL_ID, export_id: 'Id of the export.' };
export const ADAPTER_ID = { adapter_id: 'Id of the adapter.' };
export const JOB_ID = { job_id: 'Id of the training job.' };

/** Description for the routes that count the tokens of a prompt. */
export const PROMPT_LENGTH =
  'Returns the length in tokens, rendered with the template of the model. A prompt longer than the context is not an error.';
