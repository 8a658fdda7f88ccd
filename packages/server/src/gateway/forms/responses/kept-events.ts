import type { FastifyReply } from 'fastify';
import type { Response, ResponseEvent, ResponseStreamError } from '@trainyard/protocol';
import { type AnswerKey, StoreError } from '@trainyard/store';

import { isEnded } from '../../background/answer-states.ts';
import type { RouteParts } from '../../parts/server-parts.ts';
import { sendChunks, type StreamForm } from '../generation/generation.ts';

/** Sends the events of a background answer, from a number on. */
export async function sendKeptEvents(
  reply: FastifyReply,
  { key, from }: { readonly key: AnswerKey; readonly from: number },
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
  const form: StreamForm = {
    isNamed: true,
    toErrorEvent: ({ error: { code, message, param } }): ResponseStreamError => ({
      type: 'error',
      sequence_number: next,
      code,
      message,
      param,
    }),
  };
  await sendChunks(reply, numbered(), parts, { signal, form });
}

/** About 6 s of an answer. */
const BATCHES_AT_ONCE = 64;
/** Maximum wait of a started stream while the database is away. */
const OUTAGE_MS = 60_000;

/**
 * Events of an answer from a number on, until its end. Any process can read them. A started stream waits
 * while the database is away.
 */
async function* keptEvents(
  key: AnswerKey,
  from: number,
  parts: RouteParts,
  signal: AbortSignal,
): AsyncGenerator<ResponseEvent, void> {
  let next = from;
  let hasBegun = false;
  let awaySince: number | null = null;
  for (;;) {
    signal.throwIfAborted();
    try {
      const { events, isFull, isOver } = await readPage(key, next, parts);
      awaySince = null;
      for (const event of events) {
        next = event.sequence_number + 1;
        hasBegun = true;
        yield event;
      }
      if (isOver) return;
      if (isFull) continue;
    } catch (error) {
      awaySince ??= performance.now();
      const isPassing = error instanceof StoreError && error.code !== 'store.closed';
      if (!isPassing || !hasBegun || performance.now() - awaySince > OUTAGE_MS) throw error;
    }
    await parts.background.nextChange(key);
  }
}

interface EventPage {
  readonly events: readonly ResponseEvent[];
  readonly isFull: boolean;
  readonly isOver: boolean;
}

async function readPage(key: AnswerKey, from: number, parts: RouteParts): Promise<EventPage> {
  // Read first: an ended answer already has all its events.
  const status = await statusOf(key, parts);
  const batches = await parts.store.keptAnswers.readEvents(key, from, BATCHES_AT_ONCE);
  const isFull = batches.length === BATCHES_AT_ONCE;
  const isOver = !isFull && (status === null || isEnded(status));
  const events: ResponseEvent[] = [];
  let next = from;
  for (const batch of batches) {
    for (const text of batch.events.slice(Math.max(0, next - batch.firstNumber))) {
      const event = JSON.parse(text) as ResponseEvent;
      next = event.sequence_number + 1;
      events.push(event);
    }
  }
  const failed = isOver && status === 'failed' ? await failureOf(key, next, parts) : null;
  return { events: failed === null ? events : [...events, failed], isFull, isOver };
}

/**
 * Final event of an answer whose process could not write it, unless the reader has it.
 * @param next the reader's next number
 */
async function failureOf(key: AnswerKey, next: number, { store }: RouteParts): Promise<ResponseEvent | null> {
  const lastBatch = (await store.keptAnswers.readEvents(key, Number.MAX_SAFE_INTEGER, 1)).at(-1);
  const stored = lastBatch?.events.at(-1);
  const last = stored === undefined ? null : (JSON.parse(stored) as ResponseEvent);
  const number = (last?.sequence_number ?? -1) + 1;
  if (last?.type === 'response.failed' || number < next) return null;
  const found = await store.keptAnswers.find(key, key.id);
  if (found === null) return null;
  const response = JSON.parse(found.answer) as Response;
  return { type: 'response.failed', sequence_number: number, response };
}

/** Status of an answer. Fails an answer whose process is gone. Null for an unknown answer. */
export async function statusOf(key: AnswerKey, { store, background }: RouteParts): Promise<Response['status'] | null> {
  const { keptAnswers } = store;
  const found = await keptAnswers.status(key);
  if (found === null || found.lost === null) return found?.status ?? null;
  await background.endLost(found.lost);
  return (await keptAnswers.status(key))?.status ?? null;
}
