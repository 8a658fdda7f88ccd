import Type, { type Static } from 'typebox';

import { nullable } from './schema.ts';

export const ValidationItemSchema = Type.Object(
  {
    loc: Type.Array(Type.Union([Type.String(), Type.Integer()]), {
      description:
        'Path of the value, such as `["body", "messages", 0, "role"]`. Starts with `body`, `query`, `path` or `header`.',
    }),
    msg: Type.String({ description: 'Expected value.' }),
    type: Type.String({ description: 'Rule that failed, such as `missing`, `int_type`, `greater_than_equal`.' }),
    input: Type.Optional(Type.Unknown({ description: 'Value that was sent, if it is short.' })),
    ctx: Type.Optional(
      Type.Unsafe<Record<string, unknown>>({ type: 'object', description: 'The limits of the rule.' }),
    ),
  },
  {
    title: 'ValidationItem',
    description: 'A failed check, in the format of pydantic, which clients of FastAPI servers read.',
  },
);
export type ValidationItem = Static<typeof ValidationItemSchema>;

const ErrorTypeSchema = Type.Enum(
  [
    'invalid_request_error',
    'authentication_error',
    'permission_error',
    'not_found_error',
    'conflict_error',
    'overloaded_error',
    'rate_limit_error',
    'server_error',
  ],
  { description: 'Class of the error, as OpenAI clients print it.' },
);
export type ErrorType = Static<typeof ErrorTypeSchema>;

export const ErrorObjectSchema = Type.Object(
  {
    message: Type.String({ description: 'The problem, the limit, the value and the next step.' }),
    type: ErrorTypeSchema,
    param: nullable(Type.String(), {
      description: 'Field with the error, such as `temperature` or `messages.0.role`.',
    }),
    code: Type.String({ description: 'Stable code of the error.' }),
  },
  { title: 'ErrorObject', description: 'Error object that OpenAI clients read.' },
);
export type ErrorObject = Static<typeof ErrorObjectSchema>;

export const ErrorBodySchema = Type.Object(
  {
    detail: Type.Union([Type.String(), Type.Array(ValidationItemSchema)], {
      description: 'List of failed checks for status 400 and 422; otherwise the message.',
    }),
    error: ErrorObjectSchema,
  },
  {
    title: 'ErrorBody',
    description: 'Error answers have both formats, so that both kinds of clients can read them.',
  },
);
export type ErrorBody = Static<typeof ErrorBodySchema>;

export interface HttpFault {
  status: number;
  /**
   * Status on routes of the scope `inference`, if different: clients expect those of OpenAI and vLLM there.
   */
  inferenceStatus?: number;
  /** Status if the fault names a part of the path. */
  pathStatus?: number;
  type: ErrorType;
  /** True if the same request can succeed later. Sent as `x-should-retry`. */
  retryable: boolean;
}

/**
 * Status of a fault on a route of the scope; without a scope if no route was found.
 *
 * @param isInPath true if it names a part of the path
 */
export function faultStatus(fault: HttpFault, scope: string | undefined, isInPath = false): number {
  if (isInPath && fault.pathStatus !== undefined) return fault.pathStatus;
  return scope === 'inference' ? (fault.inferenceStatus ?? fault.status) : fault.status;
}

/** Faults found while reading a request, before any back end. */
export const REQUEST_FAULTS = {
  'request.invalid_json': { status: 422, inferenceStatus: 400, type: 'invalid_request_error', retryable: false },
  'request.invalid': { status: 422, inferenceStatus: 400, type: 'invalid_request_error', retryable: false },
  'request.conflict': { status: 400, type: 'invalid_request_error', retryable: false },
  'request.unsupported': { status: 400, type: 'invalid_request_error', retryable: false },
  'request.ambiguous_model': { status: 400, type: 'invalid_request_error', retryable: false },
  'request.unknown_model': { status: 404, type: 'not_found_error', retryable: false },
  // OpenAI's code: on it agents send the whole conversation again.
  previous_response_not_found: { status: 400, pathStatus: 404, type: 'invalid_request_error', retryable: false },
  'request.not_found': { status: 404, type: 'not_found_error', retryable: false },
  'request.method_not_allowed': { status: 405, type: 'invalid_request_error', retryable: false },
  'request.unauthenticated': { status: 401, type: 'authentication_error', retryable: false },
  'request.forbidden': { status: 403, type: 'permission_error', retryable: false },
  'request.host_not_allowed': { status: 403, type: 'permission_error', retryable: false },
  'request.origin_not_allowed': { status: 403, type: 'permission_error', retryable: false },
  'request.headers_too_large': { status: 431, type: 'invalid_request_error', retryable: false },
  'request.timeout': { status: 408, type: 'invalid_request_error', retryable: true },
  'request.body_too_large': { status: 413, type: 'invalid_request_error', retryable: false },
  'request.unsupported_media_type': { status: 415, type: 'invalid_request_error', retryable: false },
  'request.malformed': { status: 400, type: 'invalid_request_error', retryable: false },
  'request.job_ended': { status: 409, type: 'conflict_error', retryable: false },
  'request.model_in_training': { status: 409, type: 'conflict_error', retryable: false },
  'request.model_exists': { status: 409, type: 'conflict_error', retryable: false },
  'request.idempotency_mismatch': { status: 422, type: 'invalid_request_error', retryable: false },
  'request.idempotency_in_progress': { status: 409, type: 'conflict_error', retryable: true },
  'request.too_many': { status: 429, type: 'overloaded_error', retryable: true },
  // OpenAI's code, which clients match.
  rate_limit_exceeded: { status: 429, type: 'rate_limit_error', retryable: true },
  'server.unavailable': { status: 503, type: 'server_error', retryable: true },
  internal: { status: 500, type: 'server_error', retryable: false },
} as const satisfies Record<string, HttpFault>;

export type RequestErrorCode = keyof typeof REQUEST_FAULTS;
