import type { FastifyReply, FastifyRequest } from 'fastify';

import { toOrderedJson } from '../../seams/json/ordered-json.ts';
import type { FeedWatch } from './feed-watch.ts';
import { showSignsOfLife } from './signs-of-life.ts';
import { abortOnDisconnect, beginEventStream, writeWhole } from './sse.ts';

/** How soon a client comes back after a lost connection. */
const RETRY_MS = 2_000;

/** An event as it is sent; `id` is what `Last-Event-ID` names. */
export interface LiveEvent {
  id: string;
  type: string;
}

/** Events behind the last one, and whether none will ever follow. */
export interface LiveBatch {
  events: readonly LiveEvent[];
  isOver: boolean;
}

/** Whether the client asks for events as they happen. */
export function wantsLiveEvents({ headers }: FastifyRequest): boolean {
  return headers.accept?.includes('text/event-stream') === true;
}

/** The last event that the client has seen, as it says after a lost connection. Null: none. */
export function lastEventIdOf({ headers }: FastifyRequest): string | null {
  const id = headers['last-event-id'];
  return typeof id === 'string' && id !== '' ? id : null;
}

/**
 * Sends events as they happen, until there are no more, the client goes away or the service ends. A client that reads slowly holds up nothing but
 * itself: what it has not read stays in the store.
 *
 * @param read what comes behind the event of that id; null = from the beginning
 */
export async function sendLiveEvents(
  reply: FastifyReply,
  watch: FeedWatch,
  start: string | null,
  read: (after: string | null) => Promise<LiveBatch>,
): Promise<void> {
  const signal = abortOnDisconnect(reply);
  // The first look may be refused, with a status of its own.
  let seen = watch.numChanges;
  let batch = await read(start);
  let after = start;
  const response = beginEventStream(reply);
  const endSigns = showSignsOfLife(response);
  const write = (text: string) => writeWhole(response, text, signal);
  try {
    // An id without data is no event: it tells where the stream began to a client that loses it before its first one.
    await write(`retry: ${RETRY_MS}\n${start === null ? '' : `id: ${start}\n`}\n`);
    for (;;) {
      for (const event of batch.events) {
        await write(`id: ${event.id}\nevent: ${event.type}\ndata: ${toOrderedJson(event)}\n\n`);
        after = event.id;
      }
      if (batch.isOver || watch.isClosed) break;
      if (batch.events.length === 0) await watch.change(seen, signal);
      signal.throwIfAborted();
      seen = watch.numChanges;
      batch = await read(after);
    }
  } catch {
    // The client has left, or the store cannot be read: the client comes back and goes on behind what it has.
  } finally {
    endSigns();
  }
  response.end();
}
