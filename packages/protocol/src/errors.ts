/** One failed check of a request: where, what, and which rule. The shape is pydantic's, which clients of FastAPI servers read. */
export interface ValidationItem {
  /** `['body', 'messages', 0, 'role']`; the first part is `body`, `query`, `path` or `header`. */
  loc: (string | number)[];
  msg: string;
  /** The rule that failed, for example `missing`, `int_type`, `greater_than_equal`. */
  type: string;
  input?: unknown;
  ctx?: Record<string, unknown>;
}

/** `type` of an error, as the OpenAI clients print it. */
export type ErrorType =
  | 'invalid_request_error'
  | 'authentication_error'
  | 'permission_error'
  | 'not_found_error'
  | 'conflict_error'
  | 'overloaded_error'
  | 'server_error';

/** What an OpenAI client reads of an error; also the one event of a stream that fails after its headers. */
export interface ErrorObject {
  message: string;
  type: ErrorType;
  /** The wire field at fault, for example `temperature` or `body.messages.0.role`. */
  param: string | null;
  /** Stable code, see {@link REQUEST_FAULTS}; codes of the engine, the trainer and the store appear here too. */
  code: string;
}

/** Every error answer carries both shapes, so that both kinds of client can read it. */
export interface ErrorBody {
  detail: string | ValidationItem[];
  error: ErrorObject;
}

export interface HttpFault {
  status: number;
  type: ErrorType;
  /** Whether the same request can succeed later without a change. Sent as `x-should-retry`. */
  retryable: boolean;
}

/** Faults found while a request is read, before any back end sees it. */
export const REQUEST_FAULTS = {
  'request.invalid_json': { status: 422, type: 'invalid_request_error', retryable: false },
  'request.invalid': { status: 422, type: 'invalid_request_error', retryable: false },
  'request.conflict': { status: 400, type: 'invalid_request_error', retryable: false },
  'request.unsupported': { status: 400, type: 'invalid_request_error', retryable: false },
  'request.ambiguous_model': { status: 400, type: 'invalid_request_error', retryable: false },
  'request.unknown_model': { status: 404, type: 'not_found_error', retryable: false },
  'request.not_found': { status: 404, type: 'not_found_error', retryable: false },
  'request.method_not_allowed': { status: 405, type: 'invalid_request_error', retryable: false },
  'request.unauthenticated': { status: 401, type: 'authentication_error', retryable: false },
  'request.forbidden': { status: 403, type: 'permission_error', retryable: false },
  'request.body_too_large': { status: 413, type: 'invalid_request_error', retryable: false },
  'request.unsupported_media_type': { status: 415, type: 'invalid_request_error', retryable: false },
  'request.malformed': { status: 400, type: 'invalid_request_error', retryable: false },
  'request.model_exists': { status: 409, type: 'conflict_error', retryable: false },
  'request.idempotency_mismatch': { status: 422, type: 'invalid_request_error', retryable: false },
  'request.idempotency_in_progress': { status: 409, type: 'conflict_error', retryable: true },
  'server.unavailable': { status: 503, type: 'server_error', retryable: true },
  internal: { status: 500, type: 'server_error', retryable: false },
} as const satisfies Record<string, HttpFault>;

export type RequestErrorCode = keyof typeof REQUEST_FAULTS;
