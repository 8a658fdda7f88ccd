import type { FastifyReply } from 'fastify';
import type { Response, ResponseEvent, ResponseStreamError } from '@trainyard/protocol';
import type { AnswerKey } from '@trainyard/store';

import { isEnded } from '../../background/answer-states.ts';
import type { RouteParts } from '../../parts/server-parts.ts';
import { sendChunks } from '../generation/generation.ts';

/** Sends the events of an answer in the background, from a number on. */
export async function sendKeptEvents(
  reply: FastifyReply,
  key: AnswerKey,
  from: number,
  parts: RouteParts,
  signal: AbortSignal,
): Promise<void> {
  let next = from;
  const numbered = async function* (): AsyncGenerator<ResponseEvent, void> {
    for await (const event of keptEvents(key, from, parts, signal)) {
      next = event.sequence_number + 1;
      yield event;
    }
  };
  await sendChunks(reply, numbered(), parts, signal, {
    isNamed: true,
    toErrorEvent: ({ error: { code, message, param } }): ResponseStreamError => ({
      type: 'error',
      sequence_number: next,
      code,
      message,
      param,
    }),
  });
}

/** About 6 s of an answer. */
const BATCHES_AT_ONCE = 64;

/** The events of an answer from a number on, until it has ended. Any process can read them. */
async function* keptEvents(
  key: AnswerKey,
  from: number,
  parts: RouteParts,
  signal: AbortSignal,
): AsyncGenerator<ResponseEvent, void> {
  const { keptAnswers } = parts.store;
  let next = from;
  for (;;) {
    signal.throwIfAborted();
    // Looked at first: an answer that has ended has all its events.
    const status = await statusOf(key, parts);
    const isOver = status === null || isEnded(status);
    for (let numRead = BATCHES_AT_ONCE; numRead === BATCHES_AT_ONCE;) {
      const batches = await keptAnswers.readEvents(key, next, BATCHES_AT_ONCE);
      numRead = batches.length;
      for (const { firstNumber, events } of batches) {
        for (const text of events.slice(Math.max(0, next - firstNumber))) {
          const event = JSON.parse(text) as ResponseEvent;
          next = event.sequence_number + 1;
          yield event;
        }
      }
    }
    if (isOver) {
      if (status === 'failed') yield* failure(key, next, parts);
      return;
    }
    await parts.background.nextChange(key);
  }
}

/** The last event of an answer whose process could not write it, unless its reader has it. @param next number that the reader asks for */
async function* failure(key: AnswerKey, next: number, { store }: RouteParts): AsyncGenerator<ResponseEvent, void> {
  const lastBatch = (await store.keptAnswers.readEvents(key, Number.MAX_SAFE_INTEGER, 1)).at(-1);
  const stored = lastBatch?.events.at(-1);
  const last = stored === undefined ? null : (JSON.parse(stored) as ResponseEvent);
  const number = (last?.sequence_number ?? -1) + 1;
  if (last?.type === 'response.failed' || number < next) return;
  const found = await store.keptAnswers.find(key, key.id);
  if (found === null) return;
  const response = JSON.parse(found.answer) as Response;
  yield { type: 'response.failed', sequence_number: number, response };
}

/** The status of an answer; one whose process is gone fails here. Null for an unknown answer. */
export async function statusOf(key: AnswerKey, { store, background }: RouteParts): Promise<Response['status'] | null> {
  const { keptAnswers } = store;
  const found = await keptAnswers.status(key);
  if (found === null || found.lost === null) return found?.status ?? null;
  await background.endLost(found.lost);
  return (await keptAnswers.status(key))?.status ?? null;
}
