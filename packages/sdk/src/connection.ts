import { TrainyardApiError, TrainyardConnectionError } from './errors.ts';

export interface TrainyardOptions {
  /** ends in `/v1`; default: the variable `TRAINYARD_BASE_URL`, else `http://127.0.0.1:8420/v1` */
  readonly baseUrl?: string | undefined;
  /** default: the variable `TRAINYARD_API_KEY` */
  readonly apiKey?: string | undefined;
  /** default: the global `fetch` */
  readonly fetch?: typeof fetch | undefined;
}

/** Where `trainyard serve` listens unless it is told otherwise. */
const DEFAULT_BASE_URL = 'http://127.0.0.1:8420/v1';

export interface CallOptions {
  readonly signal?: AbortSignal;
  /** the same key and body have one effect, however often they are sent */
  readonly idempotencyKey?: string;
}

export interface RequestOptions extends CallOptions {
  /** Sent as JSON. */
  readonly body?: object;
  /** A body that is sent as it is. */
  readonly upload?: { readonly content: string | Uint8Array<ArrayBuffer> | Blob; readonly mediaType: string };
}

export interface PageOptions {
  after?: string;
  limit?: number;
  order?: 'asc' | 'desc';
}

/** Requests to one service with one key. */
export class Connection {
  readonly baseUrl: string;
  readonly #apiKey: string;
  readonly #fetch: typeof fetch;

  /** @throws {TypeError} without a key */
  constructor(options: TrainyardOptions) {
    const apiKey = options.apiKey ?? environmentVariable('TRAINYARD_API_KEY');
    if (apiKey === undefined) throw new TypeError('No API key: give `apiKey`, or set TRAINYARD_API_KEY');
    this.#apiKey = apiKey;
    const baseUrl = options.baseUrl ?? environmentVariable('TRAINYARD_BASE_URL') ?? DEFAULT_BASE_URL;
    this.baseUrl = baseUrl.replace(/\/+$/, '');
    // Called bare: the browser's own refuses to be called as a method of anything else.
    const { fetch: ownFetch } = options;
    this.#fetch =
      ownFetch === undefined ? (...request) => globalThis.fetch(...request) : (...request) => ownFetch(...request);
  }

  /** The JSON of an answer. @throws {TrainyardApiError} for an answer other than 2xx, {TrainyardConnectionError} when none came */
  async call<Answer>(method: string, path: string, options: RequestOptions): Promise<Answer> {
    const response = await this.request(method, path, options);
    const text = await this.#unbroken(response.text(), options.signal);
    return (text === '' ? null : JSON.parse(text)) as Answer;
  }

  /** An answer whose body is still to be read. @throws as `call` */
  async request(method: string, path: string, options: RequestOptions): Promise<Response> {
    const headers: Record<string, string> = { authorization: `Bearer ${this.#apiKey}` };
    if (options.body !== undefined) headers['content-type'] = 'application/json';
    if (options.upload !== undefined) headers['content-type'] = options.upload.mediaType;
    if (options.idempotencyKey !== undefined) headers['idempotency-key'] = options.idempotencyKey;
    const body = options.body === undefined ? (options.upload?.content ?? null) : JSON.stringify(options.body);
    const response = await this.send(path, { method, headers, body, signal: options.signal ?? null });
    if (response.ok) return response;
    const text = await this.#unbroken(response.text(), options.signal);
    throw new TrainyardApiError(response.status, parsed(text), text.slice(0, 500));
  }

  /** Any answer. @throws {TrainyardConnectionError} when none came; what `signal` was aborted with when it was */
  async send(path: string, init: RequestInit): Promise<Response> {
    return await this.#unbroken(this.#fetch(this.baseUrl + path, init), init.signal);
  }

  async #unbroken<Value>(answer: Promise<Value>, signal: AbortSignal | null | undefined): Promise<Value> {
    try {
      return await answer;
    } catch (error) {
      throw signal?.aborted ? error : new TrainyardConnectionError(this.baseUrl, error);
    }
  }
}

export function query(page: PageOptions): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(page)) parameters.set(name, String(value));
  return parameters.size === 0 ? '' : `?${parameters}`;
}

/** Undefined in browsers, and where the variable is empty. */
function environmentVariable(name: string): string | undefined {
  const { process } = globalThis as { process?: { env?: Record<string, string | undefined> } };
  return process?.env?.[name] || undefined;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text; // a proxy's HTML page, say
  }
}
