/** Severity of a line: `error` for an unexpected failure, `warn` if the operator should look. */
export type LogLevel = 'info' | 'warn' | 'error';

/** Subjects of a line, for searches in the log; null and absent: none. */
export interface LogFields {
  /** Default `info`. */
  readonly level?: LogLevel;
  /** `X-Request-Id` of the request, or of the request that made the job. */
  readonly requestId?: string | null;
  readonly jobId?: string | null;
  /** 32 hex digits. */
  readonly traceId?: string | null;
}

/** Logs one event per call, in words for people; never a secret, a prompt or a reply. */
export type Log = (line: string, fields?: LogFields) => void;

/** Log that adds these fields to every line. The line's own fields override them. */
export function logOf(log: Log, fields: LogFields): Log {
  return (line, own) => log(line, { ...fields, ...own });
}
