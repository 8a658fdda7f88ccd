import { randomUUID } from 'node:crypto';

import { TrainerError } from '@trainyard/trainer';

import { wireFault } from '../wire/wire-fault.ts';
import { type ApiKey, isStaleToken } from './api-key.ts';
import type { Clock } from './clock.ts';

export const PROTOBUF_TYPE = 'application/x-protobuf';

/** Only a long poll takes longer. */
const REQUEST_TIMEOUT_MS = 60_000;
/** Retries last this long if a server does not answer or is at capacity. */
const PATIENCE_MS = 300_000;
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 10_000;
const LONGEST_RETRY_AFTER_MS = 60_000;

/** The request certainly did not reach a server. */
const NEVER_SENT = ['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'ENETUNREACH', 'UND_ERR_CONNECT_TIMEOUT'];

export interface Reply {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Uint8Array;
}

export interface SendOptions {
  readonly body?: object | Uint8Array;
  /** Headers in addition to key and type. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Default 60 s. */
  readonly timeoutMs?: number;
  /** Default 5 minutes; 0: no retries. */
  readonly patienceMs?: number;
  /**
   * False if the request must not be executed twice: it is retried only if no server can have received it. Default
   * true.
   */
  readonly isRepeatable?: boolean;
  readonly signal?: AbortSignal;
}

export class NoReply extends Error {
  override readonly name = 'NoReply';
  /** System error code such as `ECONNREFUSED`, or `TIMEOUT`. */
  readonly reason: string;

  constructor(reason: string, cause?: unknown) {
    super(`no answer (${reason})`, { cause });
    this.reason = reason;
  }

  get wasNeverSent(): boolean {
    return NEVER_SENT.includes(this.reason) || this.isUntrusted;
  }

  /** Untrusted certificate. */
  get isUntrusted(): boolean {
    return /CERT|LEAF_SIGNATURE/.test(this.reason);
  }
}

/** Requests to one server; every route is below `/api/v1/`. */
export class TinkerHttp {
  readonly url: string;
  readonly clock: Clock;
  readonly #key: ApiKey;

  constructor(options: { readonly url: string; readonly key: ApiKey; readonly clock: Clock }) {
    this.url = options.url.replace(/\/+$/, '');
    this.#key = options.key;
    this.clock = options.clock;
  }

  /** Returns any answer. @throws {NoReply}; the abort reason of `signal` */
  async sendOnce(method: string, route: string, options: SendOptions = {}): Promise<Reply> {
    const reply = await this.#fetch(method, route, options);
    if (reply.status !== 401 || !isStaleToken(reply.headers)) return reply;
    await this.#key.renew();
    return await this.#fetch(method, route, options);
  }

  /**
   * Sends with retries and growing pauses while the server is full or has a fault.
   *
   * @returns any answer that a retry would not change
   * @throws {TrainerError} `trainer.remote_unavailable` if that continues; `trainer.host_lost` if it may have
   * arrived and must not be repeated; the abort reason of `signal`
   */
  async send(method: string, route: string, options: SendOptions = {}): Promise<Reply> {
    const { isRepeatable = true, patienceMs = PATIENCE_MS, signal } = options;
    const headers = { 'x-idempotency-key': randomUUID(), ...options.headers };
    const startedAt = this.clock.now();
    for (let attempt = 0; ; attempt++) {
      const outcome = await this.sendOnce(method, route, { ...options, headers }).catch((error: unknown) => {
        if (error instanceof NoReply) return error;
        throw error;
      });
      const isMissing = outcome instanceof NoReply;
      if (!isMissing && !isPassing(outcome)) return outcome;
      const mayHaveComeThrough = isMissing ? !outcome.wasNeverSent : outcome.status >= 500;
      const what = isMissing ? outcome.message : `it answered ${outcome.status}`;
      if (mayHaveComeThrough && !isRepeatable)
        throw new TrainerError('trainer.host_lost', `unknown if the Tinker server executed ${route}: ${what}`);
      if (this.clock.now() - startedAt >= patienceMs)
        throw new TrainerError(
          'trainer.remote_unavailable',
          `the Tinker server does not accept ${route}: ${what} for ${Math.round(patienceMs / 1000)} s. The job waits for it`,
        );
      await this.clock.sleep(pauseMs(attempt, isMissing ? null : outcome.headers), signal);
    }
  }

  async #fetch(method: string, route: string, options: SendOptions): Promise<Reply> {
    const { body, timeoutMs = REQUEST_TIMEOUT_MS, signal } = options;
    const isBytes = body instanceof Uint8Array;
    const timeout = AbortSignal.timeout(timeoutMs);
    const type = body === undefined ? {} : { 'content-type': isBytes ? PROTOBUF_TYPE : 'application/json' };
    try {
      const response = await fetch(route.startsWith('http') ? route : `${this.url}/api/v1/${route}`, {
        method,
        redirect: 'manual',
        headers: { accept: 'application/json', ...type, ...(await this.#keyHeader(route)), ...options.headers },
        ...(body === undefined ? {} : { body: isBytes ? (body as Uint8Array<ArrayBuffer>) : JSON.stringify(body) }),
        signal: signal === undefined ? timeout : AbortSignal.any([signal, timeout]),
      });
      return {
        status: response.status,
        headers: response.headers,
        body: new Uint8Array(await response.arrayBuffer()),
      };
    } catch (error) {
      signal?.throwIfAborted();
      throw new NoReply(timeout.aborted ? 'TIMEOUT' : reasonOf(error), error);
    }
  }

  /** Downloads may be on another host, which must not receive the key. */
  async #keyHeader(route: string): Promise<Record<string, string>> {
    const isForeign = route.startsWith('http') && new URL(route).host !== new URL(this.url).host;
    const value = isForeign ? null : await this.#key.current();
    return value === null ? {} : { 'x-api-key': value };
  }
}

/** @throws {TrainerError} `trainer.remote_refused` if the body is not JSON */
export function jsonOf({ body }: Pick<Reply, 'body'>): unknown {
  try {
    return JSON.parse(Buffer.from(body).toString('utf8'));
  } catch (cause) {
    throw wireFault('a body is not JSON', cause);
  }
}

/** Shortened. */
export function detailOf(reply: Reply): string {
  const text = Buffer.from(reply.body).toString('utf8');
  try {
    const { detail, error } = JSON.parse(text) as { detail?: unknown; error?: unknown };
    const sent = detail ?? error;
    if (sent !== undefined) return shorten(typeof sent === 'string' ? sent : JSON.stringify(sent));
  } catch {
    // Not JSON: from a proxy, for example.
  }
  return shorten(text.replaceAll(/\s+/g, ' ').trim());
}

function shorten(text: string): string {
  return text.length > 300 ? `${text.slice(0, 300)}…` : text;
}

/** True if a retry may change the status. 425: a checkpoint that is still being written. */
function isPassing({ status, headers }: Reply): boolean {
  const sent = headers.get('x-should-retry');
  if (sent !== null) return sent === 'true' && status >= 400;
  return status === 408 || status === 425 || status === 429 || status >= 500;
}

function pauseMs(attempt: number, headers: Headers | null): number {
  const sent = Number(headers?.get('retry-after-ms') ?? Number(headers?.get('retry-after') ?? NaN) * 1000);
  if (Number.isFinite(sent) && sent >= 0) return Math.min(sent, LONGEST_RETRY_AFTER_MS);
  return Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** attempt) * (1 - Math.random() / 4);
}

function reasonOf(error: unknown): string {
  const { cause } = error as { cause?: unknown };
  const { code, message } = (cause ?? {}) as { code?: unknown; message?: unknown };
  if (typeof code === 'string') return code;
  return typeof message === 'string' && message !== '' ? message : 'connection lost';
}
