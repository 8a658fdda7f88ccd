import { createHash } from 'node:crypto';

import type { FastifyReply, FastifyRequest } from 'fastify';
import type { IdempotentAnswer, Store } from '@trainyard/store';

import { callerOf } from './auth.ts';
import { toOrderedJson } from './ordered-json.ts';
import { RequestError } from './request-error.ts';

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
  const key = keyOf(request);
  if (key === null) return reply.type(JSON_TYPE).send(toOrderedJson(await act(() => undefined)));
  const identity = { keyId: callerOf(request).keyId, key };
  const state = await store.beginIdempotent({ ...identity, requestHash: hashOf(request) });
  switch (state.kind) {
    case 'completed':
      return sendAgain(reply, state);
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
      break;
    default:
      state satisfies never;
  }
  try {
    const answer = await act((body) => ({ ...identity, status: 200, body: toOrderedJson(body) }));
    const body = toOrderedJson(answer);
    await store.completeIdempotent({ ...identity, status: 200, body });
    return await reply.type(JSON_TYPE).send(body);
  } catch (error) {
    await store.abandonIdempotent(identity);
    throw error;
  }
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

/** The route is part of the request: one key cannot make two different things. */
function hashOf(request: FastifyRequest): string {
  return createHash('sha256')
    .update(`${request.method} ${request.url.split('?')[0]?.replace(/\/+$/, '')}\n${request.bodyDigest ?? ''}`)
    .digest('hex');
}
