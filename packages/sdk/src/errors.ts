import type { ErrorBody } from '@trainyard/protocol';

/** An answer other than 2xx. */
export class TrainyardApiError extends Error {
  override readonly name = 'TrainyardApiError';
  /** HTTP status. */
  readonly status: number;
  /** Stable code, e.g. `request.unknown_model`; null when the body was not ours. */
  readonly code: string | null;
  readonly body: unknown;

  constructor(status: number, body: unknown, fallback: string) {
    const error = isErrorBody(body) ? body.error : null;
    super(`${status}: ${error?.message ?? fallback}`);
    this.status = status;
    this.code = error?.code ?? null;
    this.body = body;
  }
}

/** No answer came: nothing listens at the URL, it cannot be reached, or the connection broke. */
export class TrainyardConnectionError extends Error {
  override readonly name = 'TrainyardConnectionError';
  /** The message without the URL. */
  readonly reason: string;

  constructor(baseUrl: string, cause: unknown) {
    const reason = reasonOf(cause);
    super(`${baseUrl}: ${reason}`, { cause });
    this.reason = reason;
  }
}

/** `fetch` says "fetch failed" and hides why in its cause, sometimes in the first of several. */
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
      return 'there is no such host';
    case 'ECONNRESET':
    case 'UND_ERR_SOCKET':
      return 'the connection broke';
    case undefined:
      return error instanceof Error ? error.message : String(error);
    default:
      return `it cannot be reached (${code})`;
  }
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

function isErrorBody(body: unknown): body is ErrorBody {
  return (
    typeof body === 'object' &&
    body !== null &&
    'error' in body &&
    typeof body.error === 'object' &&
    body.error !== null
  );
}
