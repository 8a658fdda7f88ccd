import type { Log } from './log.ts';
import { toLogLine } from './log-line.ts';

export type LogFormat = 'text' | 'json';

export interface LogOptions {
  readonly format: LogFormat;
  readonly role: string;
  /** Identifies the process within a service; null while unknown. */
  readonly instance: () => string | null;
  /** Default `Date.now`. */
  readonly now?: () => number;
}

/**
 * Log of a process. In JSON each line is one object: `time` (RFC 3339, UTC), `level`, `role`, `instance`,
 * `message`, and if known `request_id`, `job_id` and `trace_id`.
 * @param write receives each line without its end
 */
export function openLog({ format, role, instance, now = Date.now }: LogOptions, write: (line: string) => void): Log {
  if (format === 'text') return (line) => write(toLogLine(line));
  return (line, { level = 'info', requestId = null, jobId = null, traceId = null } = {}) => {
    const known = { instance: instance(), request_id: requestId, job_id: jobId, trace_id: traceId };
    const entry = { time: new Date(now()).toISOString(), level, role, message: line, ...withoutNulls(known) };
    // Escaped they are the same JSON and do not act in a terminal.
    write(JSON.stringify(entry).replaceAll(ACTING, escaped));
  };
}

/**
 * Characters that act in a terminal or end a line in some reader, and that `JSON.stringify` does not escape.
 */
const ACTING = /[\u007f-\u009f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g;

function escaped(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

function withoutNulls(fields: Readonly<Record<string, string | null>>): Record<string, string> {
  return Object.fromEntries(Object.entries(fields).filter((entry): entry is [string, string] => entry[1] !== null));
}
