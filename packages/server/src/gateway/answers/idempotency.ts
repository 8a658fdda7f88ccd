import { createHash } from 'node:crypto';

import type { FastifyReply, FastifyRequest } from 'fastify';
import type { IdempotentAnswer, Store } from '@trainyard/store';

import { callerOf } from '../edge/auth.ts';
import { toOrderedJson } from '../../seams/json/ordered-json.ts';
import { RequestError } from '../../seams/faults/request-error.ts';

/** Longest `Idempotency-Key`. */
const MAX_KEY_CHARACTERS = 256;
const KEY_PATTERN = /^[\x20-\x7e]+$/;
const JSON_TYPE = 'application/json; charset=utf-8';

/** An answer that was just made, or that an earlier request with the same key got. */
interface Answered {
  status: number;
  body: string;
}

/** Turns a body into what the store keeps, so that the effect and its answer are one transaction. Undefined without a key. */
export type Completes = (body: object) => IdempotentAnswer | undefined;

/**
 * Runs `act` at most once per `Idempotency-Key` of the calling API key; without the header it just runs.
 *
 * Same key, route and body → the stored answer, byte for byte. Another body or route → 422. Still running → 409 with
 * `Retry-After`. When `act` throws, the key is free again, so a repeat is tried anew; `act` must not throw after its effect.
 *
 * @param act gets `completes`: pass its result to the store call that has the effect, where the store offers to
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
 * The same for a body that is stored while it comes in: whether it was sent before is known when all of it has come. So `act` stages its
 * content, and has its effect only behind the end of it, which does not come for a repeat.
 */
export async function answerUploadOnce(
  store: Store,
  request: FastifyRequest,
  reply: FastifyReply,
  body: AsyncIterable<Buffer>,
  act: (content: AsyncIterable<Buffer>, completes: Completes) => Promise<object>,
): Promise<FastifyReply> {
  const identity = identityOf(request);
  if (identity === null) return reply.type(JSON_TYPE).send(toOrderedJson(await act(body, () => undefined)));
  const content = new OnceContent(body, async (digest) => {
    request.bodyDigest = digest;
    return await begin(store, request, identity);
  });
  try {
    return await finish(store, identity, reply, await act(content, completesOf(identity)));
  } catch (error) {
    // Refused before its content was looked at: it may have been fit for its first request.
    if (content.state === 'unread') await content.skip();
    if (content.earlier !== null) return sendAgain(reply, content.earlier);
    const taken = content.state === 'begun' ? await giveUp(store, request, identity, error) : null;
    if (taken !== null) return sendAgain(reply, taken);
    throw error;
  }
}

/** A body whose end is an error when it was answered before. */
class OnceContent implements AsyncIterable<Buffer> {
  state: 'unread' | 'reading' | 'begun' = 'unread';
  /** The stored answer of a repeat, once that is known. */
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
    if (this.earlier !== null) throw new Error('the upload was answered before');
    this.state = 'begun';
  }

  /** Reads it for nothing but its digest. */
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

/** Claims the key for this request. @returns the stored answer when it was answered before */
async function begin(store: Store, request: FastifyRequest, identity: Identity): Promise<Answered | null> {
  const state = await store.beginIdempotent({ ...identity, requestHash: hashOf(request) });
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
 * After a failure. A process that was stopped for longer than others wait finds that one of them has answered: where it refuses what they have done, such as to
 * delete what they have deleted, theirs is the answer.
 *
 * @returns that answer; null when this request has failed
 */
async function giveUp(
  store: Store,
  request: FastifyRequest,
  identity: Identity,
  error: unknown,
): Promise<Answered | null> {
  const isOurs = await store.abandonIdempotent(identity);
  if (isOurs || !(error instanceof RequestError)) return null;
  const taken = await begin(store, request, identity);
  // Nobody has it.
  if (taken === null) await store.abandonIdempotent(identity);
  return taken;
}

function completesOf(identity: Identity): Completes {
  return (body) => ({ ...identity, status: 200, body: toOrderedJson(body) });
}

async function finish(store: Store, identity: Identity, reply: FastifyReply, answer: object): Promise<FastifyReply> {
  const body = toOrderedJson(answer);
  await store.completeIdempotent({ ...identity, status: 200, body });
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

/** The route and its query are part of the request: one key cannot make two different things. */
function hashOf(request: FastifyRequest): string {
  const [path = '', query = ''] = request.url.split('?', 2);
  return createHash('sha256')
    .update(
      `${request.method} ${path.replace(/\/+$/, '')}${query === '' ? '' : `?${query}`}\n${request.bodyDigest ?? ''}`,
    )
    .digest('hex');
}
