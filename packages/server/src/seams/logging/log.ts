/** Severity of a line: `error` where something failed that should not have, `warn` where somebody should look. */
export type LogLevel = 'info' | 'warn' | 'error';

/** Whatever a line is about, for whoever searches the log; null and absent: nothing of that kind. */
export interface LogFields {
  /** Default `info`. */
  readonly level?: LogLevel;
  /** The `X-Request-Id` of the request, or of the one that made the job. */
  readonly requestId?: string | null;
  readonly jobId?: string | null;
  /** 32 hex digits. */
  readonly traceId?: string | null;
}

/** Receives one thing worth knowing a call, in words for people; never a secret, a prompt or a reply. */
export type Log = (line: string, fields?: LogFields) => void;

/** A log of which every line has these fields, unless it has its own. */
export function logOf(log: Log, fields: LogFields): Log {
  return (line, own) => log(line, { ...fields, ...own });
}
