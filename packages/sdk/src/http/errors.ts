import type { ErrorBody, ErrorType } from '@trainyard/protocol';

/** Response with a status other than 2xx. Subclasses distinguish the statuses; `code` names the fault. */
export class TrainyardApiError extends Error {
  override readonly name: string = 'TrainyardApiError';
  /** HTTP status; 200 for an error within a stream. */
  readonly status: number;
  /** Stable code, e.g. `request.unknown_model`; null if the body is not the service's. */
  readonly code: string | null;
  /** Class of the fault, e.g. `invalid_request_error`; null when `code` is. */
  readonly type: ErrorType | null;
  /** Field at fault, e.g. `messages.0.role`. */
  readonly param: string | null;
  /** Id of the request in the service's log (`X-Request-Id`); null without that header. */
  readonly requestId: string | null;
  readonly headers: Headers;
  readonly body: unknown;
  /** Training job that the call waited for; null for other calls. */
  jobId: string | null = null;

  constructor(answer: { status: number; headers?: Headers }, body: unknown, fallback: string) {
    const error = isErrorBody(body) ? body.error : null;
    super(`${answer.status}: ${error?.message ?? fallback}`);
    this.status = answer.status;
    this.headers = answer.headers ?? new Headers();
    this.code = error?.code ?? null;
    this.type = error?.type ?? null;
    this.param = error?.param ?? null;
    this.requestId = this.headers.get('x-request-id');
    this.body = body;
  }
}

/** 400. */
export class BadRequestError extends TrainyardApiError {
  override readonly name = 'BadRequestError';
}

/** 401: no valid key. */
export class AuthenticationError extends TrainyardApiError {
  override readonly name = 'AuthenticationError';
}

/** 403: the key lacks the scope, or the host or origin is unknown. */
export class PermissionDeniedError extends TrainyardApiError {
  override readonly name = 'PermissionDeniedError';
}

/** 404: it does not exist, or belongs to another entity. */
export class NotFoundError extends TrainyardApiError {
  override readonly name = 'NotFoundError';
}

/** 409: for example the job has ended, or the name is taken. */
export class ConflictError extends TrainyardApiError {
  override readonly name = 'ConflictError';
}

/** 422: invalid value on a training route. */
export class UnprocessableEntityError extends TrainyardApiError {
  override readonly name = 'UnprocessableEntityError';
}

/** 429: too much is in flight or queued. */
export class TooManyRequestsError extends TrainyardApiError {
  override readonly name = 'TooManyRequestsError';
}

/** 500 and above. */
export class ServerError extends TrainyardApiError {
  override readonly name = 'ServerError';
}

const ERROR_OF_STATUS: Readonly<Record<number, typeof TrainyardApiError>> = {
  400: BadRequestError,
  401: AuthenticationError,
  403: PermissionDeniedError,
  404: NotFoundError,
  409: ConflictError,
  422: UnprocessableEntityError,
  429: TooManyRequestsError,
};

/** Error for a status. @param text the body, JSON or not */
export function apiErrorOf(response: Response, text: string): TrainyardApiError {
  const { status, headers } = response;
  const Class = ERROR_OF_STATUS[status] ?? (status >= 500 ? ServerError : TrainyardApiError);
  return new Class({ status, headers }, parsed(text), text.slice(0, 500) || response.statusText || 'no reason given');
}

/** No response: the URL refuses connections or is unreachable, or the connection broke. */
export class TrainyardConnectionError extends Error {
  override readonly name: string = 'TrainyardConnectionError';
  /** The message without the URL. */
  readonly reason: string;
  /** See `TrainyardApiError`. */
  jobId: string | null = null;

  constructor(baseUrl: string, cause: unknown) {
    const reason = reasonOf(cause);
    super(`${baseUrl}: ${reason}`, { cause });
    this.reason = reason;
  }
}

/** No response within `timeoutMs`. */
export class TrainyardTimeoutError extends TrainyardConnectionError {
  override readonly name = 'TrainyardTimeoutError';

  constructor(baseUrl: string, timeoutMs: number) {
    super(baseUrl, new Error(`no response within ${timeoutMs / 1000} s (\`timeoutMs\`)`));
  }
}

/** Finds the reason of a failed `fetch`, which is in its causes, sometimes in the first of several. */
function reasonOf(error: unknown): string {
  const causes: unknown[] = [error];
  for (let inner = error; inner instanceof Error && inner.cause !== undefined; inner = inner.cause)
    causes.push(inner.cause);
  const code = causes.flatMap((cause) =>
    typeof cause === 'object' && cause !== null && 'code' in cause && typeof cause.code === 'string'
      ? [cause.code]
      : [],
  )[0];
  switch (code) {
    case 'ECONNREFUSED':
      return 'nothing listens there';
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return 'the host does not exist';
    case 'ECONNRESET':
    case 'UND_ERR_SOCKET':
      return 'the connection broke';
    case 'ERR_SSL_WRONG_VERSION_NUMBER':
      return 'the server does not speak TLS: use http instead of https?';
    case undefined:
      return messageOf(causes.at(-1));
    default:
      return /SELF_SIGNED|UNABLE_TO_(?:GET|VERIFY)/.test(code)
        ? `its certificate has no trusted issuer (${code}): add the issuer with NODE_EXTRA_CA_CERTS=FILE`
        : `it cannot be reached (${code})`;
  }
}

function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  // Ports of other protocols: mail, X11 and so on.
  if (error.message === 'bad port') return 'fetch and browsers block this port';
  return error.name === 'HTTPParserError' ? 'the server does not speak HTTP' : error.message;
}

/** A training job that ended with `training_failed`. */
export class TrainingFailedError extends Error {
  override readonly name = 'TrainingFailedError';
  readonly jobId: string;

  constructor(jobId: string, message: string) {
    super(message);
    this.jobId = jobId;
  }
}

/** An export that ended as `failed`. */
export class ExportFailedError extends Error {
  override readonly name = 'ExportFailedError';
  readonly exportId: string;

  constructor(exportId: string, message: string) {
    super(message);
    this.exportId = exportId;
  }
}

/**
 * Adds the job, and the way to wait for it again, to an error of a call that waited for a job. Returns other
 * errors unchanged.
 */
export function withJob(error: unknown, jobId: string): unknown {
  const isOfCall = error instanceof TrainyardApiError || error instanceof TrainyardConnectionError;
  if (!isOfCall || error.jobId !== null) return error;
  error.jobId = jobId;
  error.message += `. The job ${jobId} is not affected; wait for it with \`client.trainingJobs.wait('${jobId}')\`.`;
  return error;
}

function isErrorBody(body: unknown): body is ErrorBody {
  return (
    typeof body === 'object' &&
    body !== null &&
    'error' in body &&
    typeof body.error === 'object' &&
    body.error !== null
  );
}

/** JSON, or the text itself. */
export function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text; // for example a proxy's HTML page
  }
}
