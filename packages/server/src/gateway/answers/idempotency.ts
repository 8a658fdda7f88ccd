import { createHash } from 'node:crypto';

import type { FastifyReply, FastifyRequest } from 'fastify';
import type { IdempotentAnswer, Store } from '@trainyard/store';

import { callerOf } from '../edge/auth.ts';
import { toOrderedJson } from '../../seams/json/ordered-json.ts';
import { RequestError } from '../../seams/faults/request-error.ts';

const MAX_KEY_CHARACTERS = 256;
const KEY_PATTERN = /^[\x20-\x7e]+$/;
const JSON_TYPE = 'application/json; charset=utf-8';

/** A new answer, or the stored one of an earlier request with the same key. */
interface Answered {
  status: number;
  body: string;
}

/**
 * Converts a body to the store's form, so that the effect and its answer are one transaction. Undefined
 * without a key.
 */
export type Completes = (body: object) => IdempotentAnswer | undefined;

/**
 * Runs `act` at most once per `Idempotency-Key` of the calling API key; without the header it just runs.
 * Same key, route and body → the stored answer, byte for byte. Another body or route → 422. Still running →
 * 409 with `Retry-After`. If `act` throws, the key is freed for a retry; `act` must not throw after its
 * effect.
 * @param act gets `completes`: pass its result to the store call with the effect, if that call accepts it
 */
export async function answerOnce(
  store: Store,
  request: FastifyRequest,
  reply: FastifyReply,
  act: (completes: Completes) => Promise<object>,
): Promise<FastifyReply> {
  const identity = identityOf(request);
  if (identity === null) return reply.type(JSON_TYPE).send(toOrderedJson(await act(() => undefined)));
  const earlier = await begin(store, request, identity);
  if (earlier !== null) return sendAgain(reply, earlier);
  try {
    return await finish(store, identity, reply, await act(completesOf(identity)));
  } catch (error) {
    const taken = await giveUp(store, request, identity, error);
    if (taken !== null) return sendAgain(reply, taken);
    throw error;
  }
}

/**
 * The same for a body that is stored while it comes in: a repeat is only recognised at its end. So `act` must
 * stage the content, and have its effect only after the end, which a repeat never reaches.
 */
export async function answerUploadOnce(
  store: Store,
  reply: FastifyReply,
  body: AsyncIterable<Buffer>,
  act: (content: AsyncIterable<Buffer>, completes: Completes) => Promise<object>,
): Promise<FastifyReply> {
  const { request } = reply;
  const identity = identityOf(request);
  if (identity === null) return reply.type(JSON_TYPE).send(toOrderedJson(await act(body, () => undefined)));
  const content = new OnceContent(body, async (digest) => {
    request.bodyDigest = digest;
    return await begin(store, request, identity);
  });
  try {
    return await finish(store, identity, reply, await act(content, completesOf(identity)));
  } catch (error) {
    // Refused before its content was read: its first request may have been accepted.
    if (content.state === 'unread') await content.skip();
    if (content.earlier !== null) return sendAgain(reply, content.earlier);
    const taken = content.state === 'begun' ? await giveUp(store, request, identity, error) : null;
    if (taken !== null) return sendAgain(reply, taken);
    throw error;
  }
}

/** A body that throws at its end if it was answered before. */
class OnceContent implements AsyncIterable<Buffer> {
  state: 'unread' | 'reading' | 'begun' = 'unread';
  /** Stored answer of a repeat, once known. */
  earlier: Answered | null = null;
  readonly #body: AsyncIterable<Buffer>;
  readonly #begin: (digest: string) => Promise<Answered | null>;

  constructor(body: AsyncIterable<Buffer>, begin: (digest: string) => Promise<Answered | null>) {
    this.#body = body;
    this.#begin = begin;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Buffer, undefined> {
    this.state = 'reading';
    const hash = createHash('sha256');
    for await (const chunk of this.#body) {
      hash.update(chunk);
      yield chunk;
    }
    this.earlier = await this.#begin(hash.digest('hex'));
    if (this.earlier !== null) throw new Error('the upload was already answered');
    this.state = 'begun';
  }

  /** Reads it only for its digest. */
  async skip(): Promise<void> {
    try {
      for await (const chunk of this) void chunk;
    } catch (error) {
      if (this.earlier === null) throw error;
    }
  }
}

type Identity = Pick<IdempotentAnswer, 'keyId' | 'key'>;

/** Null without a key. */
function identityOf(request: FastifyRequest): Identity | null {
  const key = keyOf(request);
  return key === null ? null : { keyId: callerOf(request).keyId, key };
}

/** Claims the key for this request. @returns the stored answer of an earlier request */
async function begin(store: Store, request: FastifyRequest, identity: Identity): Promise<Answered | null> {
  const state = await store.idempotency.begin({ ...identity, requestHash: hashOf(request) });
  switch (state.kind) {
    case 'completed':
      return state;
    case 'in_progress':
      throw new RequestError(
        'request.idempotency_in_progress',
        'The first request with this Idempotency-Key is still running',
        { headers: { 'retry-after': '1' } },
      );
    case 'mismatch':
      throw new RequestError('request.idempotency_mismatch', 'This Idempotency-Key was used for another request', {
        param: 'Idempotency-Key',
      });
    case 'started':
      return null;
    default:
      return state satisfies never;
  }
}

/**
 * Frees the key after a failure. A process that stalled may find that another has answered: if it then fails
 * on the other's effect (such as a repeated delete), the other's answer counts.
 * @returns that answer; null if this request has failed
 */
async function giveUp(
  store: Store,
  request: FastifyRequest,
  identity: Identity,
  error: unknown,
): Promise<Answered | null> {
  const isOurs = await store.idempotency.abandon(identity);
  if (isOurs || !(error instanceof RequestError)) return null;
  const taken = await begin(store, request, identity);
  // No other request holds the key.
  if (taken === null) await store.idempotency.abandon(identity);
  return taken;
}

function completesOf(identity: Identity): Completes {
  return (body) => ({ ...identity, status: 200, body: toOrderedJson(body) });
}

async function finish(store: Store, identity: Identity, reply: FastifyReply, answer: object): Promise<FastifyReply> {
  const body = toOrderedJson(answer);
  await store.idempotency.complete({ ...identity, status: 200, body });
  return await reply.type(JSON_TYPE).send(body);
}

function sendAgain(reply: FastifyReply, answer: Answered): FastifyReply {
  return reply.code(answer.status).header('idempotent-replayed', 'true').type(JSON_TYPE).send(answer.body);
}

function keyOf(request: FastifyRequest): string | null {
  const header = request.headers['idempotency-key'];
  if (header === undefined) return null;
  const key = Array.isArray(header) ? header.join(',') : header;
  if (key.length <= MAX_KEY_CHARACTERS && KEY_PATTERN.test(key)) return key;
  throw RequestError.invalid([
    {
      loc: ['header', 'Idempotency-Key'],
      msg: `Input should be 1 to ${MAX_KEY_CHARACTERS} printable ASCII characters`,
      type: 'value_error',
    },
  ]);
}

/** The route and its query are part of the request: one key cannot create two different things. */
function hashOf(request: FastifyRequest): string {
  const [path = '', query = ''] = request.url.split('?', 2);
  return createHash('sha256')
    .update(
      `${request.method} ${path.replace(/\/+$/, '')}${query === '' ? '' : `?${query}`}\n${request.bodyDigest ?? ''}`,
    )
    .digest('hex');
}
