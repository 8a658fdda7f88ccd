import {
  type ErrorBody,
  type ErrorObject,
  type FieldNames,
  type HttpFault,
  faultStatus,
  REQUEST_FAULTS,
  type RequestErrorCode,
  SFT_EXPERIMENTAL_FIELDS,
  type ValidationItem,
} from '@trainyard/protocol';
import type { EngineErrorCode } from '@trainyard/backend';
import type { StoreErrorCode } from '@trainyard/store';
import { TrainerError, type TrainerErrorCode } from '@trainyard/trainer';

import { BackendFailure } from './backend-failure.ts';
import type { HubErrorCode } from './hub-error.ts';
import { placeOfParam, RequestError } from './request-error.ts';
import type { RouteScope } from './route-scope.ts';
import type { ValidatedPart } from './validation.ts';

export type FaultCode = RequestErrorCode | EngineErrorCode | TrainerErrorCode | StoreErrorCode | HubErrorCode;

const invalid = { status: 400, type: 'invalid_request_error', retryable: false } as const;
const broken = { status: 500, type: 'server_error', retryable: false } as const;
const unavailable = { status: 503, type: 'server_error', retryable: true } as const;

/**
 * The only mapping of error codes to HTTP. `retryable` is sent as `x-should-retry`, which overrides the
 * clients' own rule.
 */
export const HTTP_FAULTS = {
  ...REQUEST_FAULTS,

  context_length_exceeded: invalid,
  'engine.invalid_request': invalid,
  'engine.constraint_exhausted': invalid,
  'engine.no_token_left': invalid,
  'engine.template_failed': invalid,
  'engine.overloaded': { status: 429, type: 'overloaded_error', retryable: true },
  // A client that aborted reads nothing; the status is for a shutdown.
  'engine.aborted': unavailable,
  'engine.adapter_unreadable': broken,
  'engine.adapter_damaged': broken,
  'engine.model_damaged': broken,
  'engine.host_lost': unavailable,
  'engine.internal': broken,

  'trainer.architecture_unsupported': invalid,
  'trainer.config_invalid': { ...invalid, status: 422 },
  'trainer.token_out_of_range': { ...invalid, status: 422 },
  'trainer.logprob_invalid': { ...invalid, status: 422 },
  'trainer.reward_not_finite': { ...invalid, status: 422 },
  'trainer.render_failed': { ...invalid, status: 422 },
  'trainer.non_finite': broken,
  'trainer.checkpoint_unreadable': broken,
  'trainer.checkpoint_damaged': broken,
  'trainer.disk_full': broken,
  'trainer.memory_full': broken,
  'trainer.export_differs': broken,
  'trainer.adapter_invalid': { ...invalid, status: 422 },
  'trainer.cancelled': { status: 409, type: 'conflict_error', retryable: false },
  'trainer.host_lost': unavailable,
  'trainer.remote_unavailable': unavailable,
  'trainer.remote_refused': broken,
  'trainer.remote_differs': broken,
  'trainer.internal': broken,

  'hub.not_found': invalid,
  'hub.access_denied': invalid,
  'hub.model_unusable': invalid,
  'hub.unreachable': unavailable,
  'hub.answer_invalid': broken,
  'hub.disk_full': { ...broken, status: 507 },

  'store.corrupt': broken,
  'store.disk_full': { ...broken, status: 507 },
  'store.schema_newer': broken,
  'store.busy': unavailable,
  'store.unavailable': unavailable,
  'store.closed': unavailable,
  'store.constraint_violated': broken,
  'store.lease_lost': broken,
  'store.queue_full': { status: 429, type: 'overloaded_error', retryable: true },
  'store.model_archived': { status: 409, type: 'conflict_error', retryable: false },
  'store.cursor_unknown': { ...invalid, status: 422 },
  'store.key_invalid': broken,
  'store.blob_missing': broken,
  'store.blob_exists': broken,
  'store.blob_corrupt': broken,
} as const satisfies Record<FaultCode, HttpFault>;

/**
 * Error for a prompt that is too long, with vLLM's text and field name. LiteLLM recognises it by the start of
 * the message; LangChain by the code, which the newest OpenAI client passes on only inside the message.
 * @param error its message has the value, the limit and the next step
 */
export function asContextExceeded(error: Error, contextLength: number): BackendFailure {
  const message = `This model's maximum context length is ${contextLength} tokens. However, ${error.message} (context_length_exceeded)`;
  return new BackendFailure('context_length_exceeded', message, 'input_tokens');
}

export class JobFault extends Error {
  override readonly name = 'JobFault';
  readonly code: FaultCode;
  constructor(code: FaultCode, message: string) {
    super(message);
    this.code = code;
  }
}

/**
 * Service failures whose messages come from this package or the trainer's mathematics: they contain no file
 * names.
 */
const SHOWN: ReadonlySet<FaultCode> = new Set([
  'server.unavailable',
  'engine.aborted',
  'engine.adapter_damaged',
  'engine.model_damaged',
  'engine.host_lost',
  'trainer.checkpoint_damaged',
  'trainer.host_lost',
  'trainer.remote_unavailable',
  'trainer.remote_refused',
  'trainer.remote_differs',
  'trainer.non_finite',
  'trainer.export_differs',
  'hub.unreachable',
  'hub.answer_invalid',
  'hub.disk_full',
]);

/** Messages for clients that replace those with file names of this machine. */
const WORDS: Partial<Record<FaultCode, string>> = {
  'store.busy': 'The store is busy: another process held it for longer than a request waits; retry',
  'store.disk_full': 'The disk of the service is full and nothing was stored; its operator must free space',
  'store.unavailable': 'The store of the service cannot be read or written; see the log of the service',
  'store.closed': 'The service is shutting down; retry',
  'store.blob_corrupt':
    'A stored file is damaged: its checksum is wrong. The log of the service has its name. Restore it from a backup, or send the data again',
  'trainer.checkpoint_unreadable': 'The files of the checkpoint cannot be read; see the log of the service',
  'trainer.disk_full': 'The disk of the service is full; its operator must free space',
  'trainer.memory_full':
    'The machine has too little free memory to train this base model; the log of the service has the numbers',
};

/**
 * Client-safe message of a failure: the only way from an error to a text that leaves this process. Refusals
 * keep their message. Service failures may contain file names of this machine; their messages stay in its
 * log.
 */
export function clientFailure(thrown: unknown): { code: FaultCode; message: string } {
  const code = codeOf(thrown);
  const isShown = HTTP_FAULTS[code].status < 500 || SHOWN.has(code) || thrown instanceof JobFault;
  const message = isShown
    ? (thrown as Error).message
    : (WORDS[code] ?? `The service failed (${code}); see the log of the service`);
  return { code, message: shortened(message, MAX_MESSAGE_CHARACTERS) };
}

/** Refusals repeat names that a client chose, which may be as long as the body. */
const MAX_MESSAGE_CHARACTERS = 8_000;
const MAX_NAME_CHARACTERS = 200;

function shortened(text: string, most: number): string {
  if (text.length <= most) return text;
  return `${text.slice(0, most).toWellFormed()}… (${text.length - most} more characters)`;
}

function shortenedItem({ loc, msg, ...item }: ValidationItem): ValidationItem {
  return {
    ...item,
    loc: loc.map((part) => (typeof part === 'string' ? shortened(part, MAX_NAME_CHARACTERS) : part)),
    msg: shortened(msg, MAX_MESSAGE_CHARACTERS),
  };
}

export interface ErrorAnswer {
  status: number;
  body: ErrorBody;
  headers: Readonly<Record<string, string>>;
  isInternal: boolean;
}

/**
 * Converts any thrown value to an answer.
 * @param scope of the route that failed; undefined if no route matched
 * @param nameOf names of chat fields in the route's form; default: unchanged
 * @param partOf the part of the request with a parameter of that name; default: the body
 */
export function toErrorAnswer(
  error: unknown,
  scope: RouteScope | undefined,
  nameOf?: FieldNames,
  partOf: (name: string) => ValidatedPart = () => 'body',
): ErrorAnswer {
  const namesFields = error instanceof RequestError || error instanceof BackendFailure;
  const thrown = namesFields && nameOf !== undefined ? error.inForm(nameOf) : error;
  const { code, message } = clientFailure(thrown);
  const fault: HttpFault = HTTP_FAULTS[code];
  const isInternal = fault.status === 500 || fault.status === 507 || code === 'store.unavailable';
  const param = paramOf(thrown);
  const object: ErrorObject = { message, type: fault.type, param, code };
  const headers = {
    'x-should-retry': String(fault.retryable),
    // Wait of clients that use the header, seconds; errors with a better value set it themselves.
    ...(fault.status === 429 || fault.status === 503 ? { 'retry-after': '1' } : {}),
    ...(thrown instanceof RequestError ? thrown.headers : {}),
  };
  const status = faultStatus(fault, scope, param !== null && partOf(param) === 'path');
  const items = thrown instanceof RequestError && thrown.items !== null ? thrown.items.map(shortenedItem) : null;
  const isOfValidation = status === 400 || status === 422;
  return {
    status,
    body: { detail: items ?? (isOfValidation ? [itemOf(object, thrown, partOf)] : message), error: object },
    headers,
    isInternal,
  };
}

const PLACES: Readonly<Record<string, readonly string[]>> = {
  'store.cursor_unknown': ['query', 'after'],
  'request.idempotency_mismatch': ['header', 'Idempotency-Key'],
  'request.malformed': ['header'],
};

/** A refusal as a failed check: clients of FastAPI servers expect a list in every answer with 400 or 422. */
function itemOf(
  { message, param, code }: ErrorObject,
  thrown: unknown,
  partOf: (name: string) => ValidatedPart,
): ValidationItem {
  if (param === null)
    return { loc: [...(PLACES[code] ?? placeOfSetting(thrown) ?? ['body'])], msg: message, type: 'value_error' };
  const [name = param, ...rest] = placeOfParam(param);
  return { loc: [partOf(String(name)), name, ...rest], msg: message, type: 'value_error' };
}

function placeOfSetting(thrown: unknown): string[] | null {
  if (!(thrown instanceof TrainerError) || thrown.field === null) return null;
  return [
    'body',
    Object.hasOwn(SFT_EXPERIMENTAL_FIELDS, thrown.field) ? 'experimental_config' : 'config',
    thrown.field,
  ];
}

function codeOf(thrown: unknown): FaultCode {
  const code = thrown instanceof Error && 'code' in thrown ? thrown.code : null;
  return typeof code === 'string' && Object.hasOwn(HTTP_FAULTS, code) ? (code as FaultCode) : 'internal';
}

function paramOf(thrown: unknown): string | null {
  const param = thrown instanceof RequestError || thrown instanceof BackendFailure ? thrown.param : null;
  return param === null ? null : shortened(param, MAX_NAME_CHARACTERS);
}
