import { Trainyard, TrainyardConnectionError, type TrainyardOptions } from '@trainyard/sdk';

/** Time after which the user sees that the program is waiting. */
const PATIENCE_MS = 5_000;
/**
 * The service answers or refuses requests without computation within this: a wait for its database ends after
 * 25 s.
 */
const ANSWER_MS = 30_000;
/** A longer body takes time to send. */
const SHORT_BODY = 100_000;

/**
 * Client for a user at a terminal. Repeats transient failures once. Reports a late response on stderr, and
 * waits no longer than the service can take. A response without the mark of the service, a request's id, is
 * another server's.
 */
export function attentiveClient(connection: { readonly baseUrl: string; readonly apiKey: string | null }): Trainyard {
  const options: TrainyardOptions = { ...connection, maxRetries: 1 };
  const { fetch: send } = new Trainyard(options);
  const { baseUrl } = connection;
  return new Trainyard({
    ...options,
    fetch: async (input, init = {}) => {
      const response = await answerOf(
        baseUrl,
        isQuick(String(input instanceof Request ? input.url : input), init),
        (signal) =>
          send(input, { ...init, signal: AbortSignal.any([signal, ...(init.signal == null ? [] : [init.signal])]) }),
      );
      if (response.headers.has('x-request-id') || !isForeign(response)) return response;
      await response.body?.cancel();
      throw new TrainyardConnectionError(baseUrl, new Error(`the server is not Trainyard (HTTP ${response.status})`));
    },
  });
}

/** True if no process listens at the address, and the user can start one there. */
export function isNothingListening(error: TrainyardConnectionError): boolean {
  for (let inner: unknown = error; inner instanceof Error; inner = inner.cause)
    if ('code' in inner && inner.code === 'ECONNREFUSED') return true;
  return false;
}

/**
 * True for a response of another server. A refusal or fault without the mark may come from a proxy in front
 * of the service, but not a missing route.
 */
function isForeign({ ok, status }: Response): boolean {
  return ok || status === 404 || status === 405;
}

/** False for sampling and large bodies, whose time is unlimited. */
function isQuick(url: string, { body }: RequestInit): boolean {
  if (/\/(?:completions|responses|messages)$/.test(new URL(url).pathname)) return false;
  return body === undefined || body === null || (typeof body === 'string' && body.length < SHORT_BODY);
}

async function answerOf(
  baseUrl: string,
  isLimited: boolean,
  send: (signal: AbortSignal) => Promise<Response>,
): Promise<Response> {
  const end = new AbortController();
  const waiting = setTimeout(() => process.stderr.write(`waiting for a response from ${baseUrl} …\n`), PATIENCE_MS);
  const late = new TrainyardConnectionError(
    baseUrl,
    new Error(`it accepts connections but did not respond within ${ANSWER_MS / 1000} s`),
  );
  const limit = isLimited ? setTimeout(() => end.abort(late), ANSWER_MS) : undefined;
  try {
    return await send(end.signal);
  } finally {
    clearTimeout(waiting);
    clearTimeout(limit);
  }
}
