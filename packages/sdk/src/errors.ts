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
