import { delay } from './delay.ts';
import { apiErrorOf, parsed, TrainyardApiError, TrainyardConnectionError, TrainyardTimeoutError } from './errors.ts';
import { checkedApiKey, checkedBaseUrl, checkedPath, checkedTimeoutMs } from './checked-options.ts';
import { fileAnswer } from './file-answer.ts';
import { patientFetch } from './patient-fetch.ts';
import { OutageClock, type OutageOptions } from './outage.ts';
import { queryString } from './query.ts';
import { DEFAULT_MAX_RETRIES, type Repeat, retryDelayMs } from './retry-policy.ts';
import { ServiceClock } from './service-clock.ts';

export interface TrainyardOptions {
  /**
   * URL of the API, ending in `/v1`, in a page also without a host; default: the variable
   * `TRAINYARD_BASE_URL`, else `http://127.0.0.1:8420/v1`
   */
  readonly baseUrl?: string | undefined;
  /** default: the variable `TRAINYARD_API_KEY`; null sends no key, for pages signed in by a cookie */
  readonly apiKey?: string | null | undefined;
  /** default: the global `fetch`, in Node without its limit of 300 s until a response starts */
  readonly fetch?: typeof fetch | undefined;
  /** time limit of the whole response, or until the start of a stream; default 600,000 */
  readonly timeoutMs?: number | undefined;
  /** maximum repeats of a repeatable request; default 2 */
  readonly maxRetries?: number | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** cookies in a browser; default: the browser's own, `same-origin` */
  readonly credentials?: 'omit' | 'same-origin' | 'include' | undefined;
}

/** Default address of `trainyard serve`. */
const DEFAULT_BASE_URL = 'http://127.0.0.1:8420/v1';
const DEFAULT_TIMEOUT_MS = 600_000;
/** Maximum of timers. */
const LONGEST_TIMEOUT_MS = 2 ** 31 - 1;

/** Options of a call. `maxOutageMs` is 0 by default: a call is repeated `maxRetries` times and then fails. */
export interface CallOptions extends OutageOptions {
  readonly signal?: AbortSignal | undefined;
  /** requests with the same key and body have one effect; calls with an effect create a key by default */
  readonly idempotencyKey?: string | undefined;
  readonly timeoutMs?: number | undefined;
  readonly maxRetries?: number | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

export interface RequestOptions extends CallOptions {
  /** Default: `always` for GET, else `keyed`. */
  readonly repeat?: Repeat;
  readonly query?: object;
  readonly body?: object;
  /** Body sent unchanged. */
  readonly upload?: { readonly content: string | Uint8Array<ArrayBuffer> | Blob; readonly mediaType: string };
  readonly accept?: string;
  /** Statuses that are not errors for this request. */
  readonly alsoGood?: readonly number[];
}

type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

/** Request ids of responses, for reports of problems. */
const requestIds = new WeakMap<object, string>();

/** Request id of a response of the SDK, as in the service's log; null if it has none. */
export function requestIdOf(answer: object): string | null {
  return requestIds.get(answer) ?? null;
}

/** Connection to one service with one key. */
export class Connection {
  readonly baseUrl: string;
  readonly clock: ServiceClock = new ServiceClock();
  /** The base URL without `/v1`. */
  readonly #root: string;
  readonly #apiKey: string | null;
  readonly #fetch: typeof fetch;
  readonly #options: TrainyardOptions;

  /** @throws {TypeError} without a key, or for an invalid key, base URL or time */
  constructor(options: TrainyardOptions) {
    const apiKey = options.apiKey === undefined ? environmentVariable('TRAINYARD_API_KEY') : options.apiKey;
    if (apiKey === undefined) throw new TypeError('No API key: pass `apiKey`, or set TRAINYARD_API_KEY');
    this.#apiKey = apiKey === null ? null : checkedApiKey(apiKey);
    this.#options = options;
    if (options.timeoutMs !== undefined) checkedTimeoutMs(options.timeoutMs);
    const baseUrl = checkedBaseUrl(
      options.baseUrl ?? environmentVariable('TRAINYARD_BASE_URL') ?? DEFAULT_BASE_URL,
      options.fetch !== undefined,
    );
    this.#root = baseUrl.replace(/\/+$/, '').replace(/\/v1$/, '');
    this.baseUrl = `${this.#root}/v1`;
    // Called without a receiver, because the browser's `fetch` refuses to be a method of another object.
    const { fetch: ownFetch } = options;
    this.#fetch = ownFetch === undefined ? patientFetch : (...request) => ownFetch(...request);
  }

  /** `fetch` with the key and headers of this connection, which replace those given. */
  async fetch(input: Parameters<typeof fetch>[0], init: RequestInit = {}): Promise<Response> {
    const headers = new Headers(init.headers ?? (input instanceof Request ? input.headers : {}));
    for (const [name, value] of Object.entries(this.#options.headers ?? {})) headers.set(name, value);
    if (this.#apiKey === null) headers.delete('authorization');
    else headers.set('authorization', `Bearer ${this.#apiKey}`);
    const { credentials } = this.#options;
    return await this.#fetch(input, { ...init, headers, ...(credentials === undefined ? {} : { credentials }) });
  }

  /**
   * JSON of a response.
   *
   * @param path from the root of the service, e.g. `/v1/models`
   * @throws {TrainyardApiError} for a status other than 2xx; {TrainyardConnectionError} without a response;
   *   the reason of an aborted `signal`; {TypeError} for an invalid id or time, before anything is sent
   */
  async json<Answer>(method: Method, path: string, options: RequestOptions = {}): Promise<Answer> {
    return await this.#repeated(method, path, options, async (response) => {
      const answer = this.#parse(response, await response.text());
      const requestId = response.headers.get('x-request-id');
      if (requestId !== null) requestIds.set(answer, requestId);
      return answer as Answer;
    });
  }

  /** Text of a response. @throws as `json` */
  async text(method: Method, path: string, options: RequestOptions = {}): Promise<string> {
    return await this.#repeated(method, path, options, (response) => response.text());
  }

  /** Response with an unread body. @throws as `json` */
  async open(method: Method, path: string, options: RequestOptions = {}): Promise<Response> {
    return await this.#repeated(method, path, options, async (response) => response);
  }

  /** Response whose body is a file and fails like a call. @throws as `json` */
  async file(path: string, options: RequestOptions = {}): Promise<Response> {
    return fileAnswer(await this.open('GET', path, options), this.baseUrl, options.signal);
  }

  /** Response that is a stream of events. @throws as `json`, also if it is something else */
  async stream(method: Method, path: string, options: RequestOptions = {}): Promise<Response> {
    return await this.#repeated(method, path, options, async (response) => {
      if (isEventStream(response)) return response;
      throw this.#foreign(response, await response.text(), 'the response is not an event stream');
    });
  }

  async #repeated<Result>(
    method: Method,
    path: string,
    options: RequestOptions,
    read: (response: Response) => Promise<Result>,
  ): Promise<Result> {
    const maxRetries = options.maxRetries ?? this.#options.maxRetries ?? DEFAULT_MAX_RETRIES;
    const repeat = options.repeat ?? (method === 'GET' ? 'always' : 'keyed');
    if (options.timeoutMs !== undefined) checkedTimeoutMs(options.timeoutMs);
    const url = this.#root + checkedPath(path) + queryString(options.query ?? {});
    const { maxOutageMs = 0, onOutage } = options;
    const init = this.#requestOf(method, options, repeat === 'keyed' && (maxRetries > 0 || maxOutageMs > 0));
    const outage = new OutageClock(this.baseUrl, { maxOutageMs, onOutage });
    for (let numRepeats = 0; ; numRepeats++) {
      try {
        return await this.#once(url, init, options, read);
      } catch (error) {
        const mayRepeat = outage.note(error) || numRepeats < maxRetries;
        const waitMs = mayRepeat ? retryDelayMs(error, repeat, numRepeats) : null;
        if (waitMs === null) throw error;
        await delay(waitMs, options.signal);
      }
    }
  }

  #requestOf(method: Method, options: RequestOptions, needsKey: boolean): RequestInit {
    const { body, upload, accept, idempotencyKey = needsKey ? newIdempotencyKey() : undefined } = options;
    const { credentials } = this.#options;
    const headers = new Headers({ ...this.#options.headers, ...options.headers });
    if (this.#apiKey !== null) headers.set('authorization', `Bearer ${this.#apiKey}`);
    if (accept !== undefined) headers.set('accept', accept);
    if (body !== undefined) headers.set('content-type', 'application/json');
    if (upload !== undefined) headers.set('content-type', upload.mediaType);
    if (idempotencyKey !== undefined) headers.set('idempotency-key', idempotencyKey);
    const content = body === undefined ? (upload?.content ?? null) : JSON.stringify(body);
    // The service never redirects. Following a redirect would drop the key, or turn a POST into a GET.
    const redirect = 'manual';
    return { method, headers, body: content, redirect, ...(credentials === undefined ? {} : { credentials }) };
  }

  async #once<Result>(
    url: string,
    init: RequestInit,
    { signal, alsoGood = [], timeoutMs = this.#options.timeoutMs ?? DEFAULT_TIMEOUT_MS }: RequestOptions,
    read: (response: Response) => Promise<Result>,
  ): Promise<Result> {
    signal?.throwIfAborted();
    const clock = new AbortController();
    const timeout = () => clock.abort(new TrainyardTimeoutError(this.baseUrl, timeoutMs));
    const timer = timeoutMs <= LONGEST_TIMEOUT_MS ? setTimeout(timeout, timeoutMs) : undefined;
    try {
      const response = await this.#fetch(url, { ...init, signal: eitherOf(clock, signal) });
      this.clock.note(response);
      if (response.ok || alsoGood.includes(response.status)) return await read(response);
      if (isRedirect(response))
        throw this.#foreign(response, '', `it redirects to ${response.headers.get('location') ?? 'another address'}`);
      throw apiErrorOf(response, await response.text());
    } catch (error) {
      if (signal?.aborted) throw signal.reason;
      if (clock.signal.aborted) throw clock.signal.reason;
      if (error instanceof TrainyardApiError || error instanceof TrainyardConnectionError) throw error;
      throw new TrainyardConnectionError(this.baseUrl, error);
    } finally {
      clearTimeout(timer);
    }
  }

  #parse(response: Response, text: string): object {
    const answer = parsed(text);
    if (typeof answer === 'object' && answer !== null) return answer;
    throw this.#foreign(response, text, 'the response is not JSON');
  }

  /** Error for a response that the service never gives. */
  #foreign({ status, headers }: Response, text: string, what: string): TrainyardApiError {
    return new TrainyardApiError({ status, headers }, text, `${what}: is ${this.baseUrl} the URL of Trainyard?`);
  }
}

export function isEventStream({ headers }: Response): boolean {
  return headers.get('content-type')?.startsWith('text/event-stream') === true;
}

/** True for a redirect; browsers hide its target and even its status. */
function isRedirect({ status, type }: Response): boolean {
  return type === 'opaqueredirect' || [301, 302, 303, 307, 308].includes(status);
}

/** Signal that aborts with either. Browsers before 2024 lack `AbortSignal.any`. */
function eitherOf(own: AbortController, given: AbortSignal | undefined): AbortSignal {
  if (given === undefined) return own.signal;
  if (typeof AbortSignal.any === 'function') return AbortSignal.any([own.signal, given]);
  given.addEventListener('abort', () => own.abort(given.reason), { once: true, signal: own.signal });
  return own.signal;
}

/** Replaces `crypto.randomUUID`, which is missing in pages loaded over plain HTTP. */
function newIdempotencyKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return `sdk-${Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')}`;
}

/** Undefined in browsers, and for an empty variable. */
function environmentVariable(name: string): string | undefined {
  const { process } = globalThis as { process?: { env?: Record<string, string | undefined> } };
  return process?.env?.[name] || undefined;
}
