export type FailureKind =
  /** The connection is refused: nothing was sent. */
  | 'unreachable'
  /** Its certificate is not accepted: nothing was sent. */
  | 'untrusted'
  /** The connection broke after that. */
  | 'lost'
  /** Time limit without an answer. */
  | 'hangs'
  /** 401, 403. */
  | 'key'
  /** 404 of a model: an adapter that is not loaded. */
  | 'unknown_model'
  /** 404 of a route. */
  | 'no_route'
  /** 429, 503: it accepts no requests now. */
  | 'busy'
  /** 400, 422 and the like: the request is at fault. */
  | 'refused'
  /** 500 and the like, or an answer that no vLLM gives. */
  | 'broken';

/** Failure of a server. The message names only its address. */
export class ServerFailure extends Error {
  override readonly name = 'ServerFailure';
  readonly kind: FailureKind;
  /** The server's message in one line; '' if there is none. */
  readonly reason: string;
  /** Field named by the message. */
  readonly param: string | null;
  /** Null without an answer. */
  readonly status: number | null;

  constructor(
    kind: FailureKind,
    message: string,
    parts: { reason?: string; param?: string | null; status?: number | null; cause?: unknown } = {},
  ) {
    super(message, { cause: parts.cause });
    this.kind = kind;
    this.reason = parts.reason ?? '';
    this.param = parts.param ?? null;
    this.status = parts.status ?? null;
  }
}

const LONGEST_REASON = 300;

/**
 * Reads an error body in either of vLLM's shapes: `{"error": {"message", "type", "param", "code"}}`, or
 * FastAPI's `{"detail"}`.
 */
function readErrorBody(text: string): { message: string; type: string | null; param: string | null } {
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    return { message: oneLine(text), type: null, param: null };
  }
  const { error, detail } = (typeof body === 'object' && body !== null ? body : {}) as Record<string, unknown>;
  if (typeof error === 'string') return { message: oneLine(error), type: null, param: null };
  if (typeof error === 'object' && error !== null) {
    const { message, type, param } = error as Record<string, unknown>;
    return {
      message: oneLine(typeof message === 'string' ? message : ''),
      type: typeof type === 'string' ? type : null,
      param: typeof param === 'string' ? param : null,
    };
  }
  return { message: oneLine(typeof detail === 'string' ? detail : text), type: null, param: null };
}

/** Failure for an answer other than 200. */
export function failureOfAnswer(server: string, status: number, text: string): ServerFailure {
  const { message, type, param } = readErrorBody(text);
  const kind = kindOf(status, type);
  return new ServerFailure(kind, `${server} answered ${status}${message === '' ? '' : `: ${message}`}`, {
    reason: message,
    param,
    status,
  });
}

/**
 * Failure for an error event of a stream. vLLM checks part of a request after it has answered 200.
 * @param hasBegun tokens came before it: then it is the server's fault with any status
 */
export function failureOfEvent(
  server: string,
  event: { readonly message: string; readonly param: string | null; readonly status: number | null },
  hasBegun: boolean,
): ServerFailure {
  const { param, status } = event;
  const reason = oneLine(event.message);
  const isRefusal = !hasBegun && status !== null && status >= 400 && status < 500;
  const what = isRefusal ? 'refused a request during its stream' : 'failed during a stream';
  return new ServerFailure(isRefusal ? 'refused' : 'broken', `${server} ${what}: ${reason}`, { reason, param, status });
}

function kindOf(status: number, type: string | null): FailureKind {
  if (status === 401 || status === 403) return 'key';
  if (status === 404) return type === 'NotFoundError' ? 'unknown_model' : 'no_route';
  if (status === 429 || status === 503) return 'busy';
  return status >= 400 && status < 500 ? 'refused' : 'broken';
}

function oneLine(text: string): string {
  const line = text.replaceAll(/\s+/g, ' ').trim();
  return line.length > LONGEST_REASON ? `${line.slice(0, LONGEST_REASON)}…` : line;
}
