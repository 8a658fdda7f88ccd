import type { TObject, TSchema } from 'typebox';

/** The scope that a key must have; `public` routes take no key, `any` takes every valid one. */
export type OperationScope = 'public' | 'any' | 'inference' | 'training' | 'admin';

/** One thing that the API does: what it takes, what it answers, and which faults it can end in. */
export interface Operation {
  /** Unique; the name of a method in generated clients. */
  readonly id: string;
  readonly method: 'get' | 'post' | 'put' | 'delete';
  /** Path templates, the canonical one first: all of them do the same. */
  readonly paths: readonly [string, ...string[]];
  readonly scope: OperationScope;
  readonly tag: 'Inference' | 'Training' | 'Service';
  readonly summary: string;
  readonly description: string;
  /** Words for each parameter of the path. */
  readonly pathParameters?: Readonly<Record<string, string>>;
  readonly query?: TObject;
  /** Whether `Idempotency-Key` makes a repeat harmless. */
  readonly isIdempotent?: boolean;
  readonly body?: TSchema;
  /** A body that is no JSON value: a file of one of these types. */
  readonly upload?: { readonly mediaTypes: readonly string[]; readonly description: string };
  /** The answer with status 200; text where it is a media type alone. */
  readonly answer: TSchema | { readonly mediaType: string; readonly otherMediaTypes?: readonly string[] };
  /** The events of a stream, for requests with `stream: true`. */
  readonly chunk?: TSchema;
  /** Whether the events of the stream have names; then no `[DONE]` ends it. */
  readonly isNamedStream?: boolean;
  /** An error inside the stream. Default `StreamError`. */
  readonly streamError?: TSchema;
  /** The body of an error. Default `ErrorBody`. */
  readonly error?: TSchema;
  /** Answers that are no fault and have another status than 200. */
  readonly otherAnswers?: Readonly<Record<number, { readonly description: string; readonly schema?: TSchema }>>;
  /** Codes of the faults it can end in; what their statuses are the table of faults knows. */
  readonly faults: readonly string[];
}

/** Whether the routes of a path refuse query parameters that they do not have. */
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
/** Faults of requests that render a prompt, or read one as tokens, and sample nothing. */
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
export const MODEL_ID = { model_id: 'Id of the model, as its registration answered.' };
export const ARTIFACT_NAME = {
  entity: "The key's own entity.",
  project: 'Groups artifacts.',
  name: 'Unique in its project.',
};
export const ARTIFACT_VERSION = { ...ARTIFACT_NAME, version: '`vN`, or `latest` for the newest one that is there.' };
export const EXPORT_ID = { ...MODEL_ID, export_id: 'Id of the export.' };
export const ADAPTER_ID = { adapter_id: 'Id of the adapter.' };
export const JOB_ID = { job_id: 'Id of the training job.' };
