/** Ways in which a server can fail. */
export type FailureKind =
  /** Nobody takes the connection: nothing was sent. */
  | 'unreachable'
  /** Its certificate is not accepted: nothing was sent. */
  | 'untrusted'
  /** The connection broke behind that. */
  | 'lost'
  /** Nothing came within its time. */
  | 'hangs'
  /** 401, 403. */
  | 'key'
  /** 404 of a model: an adapter that is not loaded. */
  | 'unknown_model'
  /** 404 of a route. */
  | 'no_route'
  /** 429, 503: it takes no requests now. */
  | 'busy'
  /** 400, 422 and the like: the request is at fault. */
  | 'refused'
  /** 500 and the like, or what no vLLM says. */
  | 'broken';

/** A server that did not do what it was asked. The message names it by its address, and says no more of it. */
export class ServerFailure extends Error {
  override readonly name = 'ServerFailure';
  readonly kind: FailureKind;
  /** Its own words, one line; '' where there are none. */
  readonly reason: string;
  /** The field that it names. */
  readonly param: string | null;
  /** Null: there was no answer. */
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

/** An error body, in either of vLLM's shapes: `{"error": {"message", "type", "param", "code"}}`, or FastAPI's `{"detail"}`. */
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

/** The failure that an answer other than 200 is. */
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
 * The failure that an error event of a stream is. vLLM checks some of a request after it has answered 200.
 * @param hasBegun tokens came before it: then it is the server's fault whatever its status
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
