import type { FastifyReply, FastifyRequest } from 'fastify';

import { toOrderedJson } from '../../seams/json/ordered-json.ts';
import type { FeedWatch } from './feed-watch.ts';
import { showSignsOfLife } from './signs-of-life.ts';
import { abortOnDisconnect, beginEventStream, writeWhole } from './sse.ts';

/** Delay until a client reconnects. */
const RETRY_MS = 2_000;

/** An event in the stream; `id` is for `Last-Event-ID`. */
export interface LiveEvent {
  id: string;
  type: string;
}

/** Events after the last one; `isOver`: none will follow. */
export interface LiveBatch {
  events: readonly LiveEvent[];
  isOver: boolean;
}

export function wantsLiveEvents({ headers }: FastifyRequest): boolean {
  return headers.accept?.includes('text/event-stream') === true;
}

/** Last event that the client has received, sent after a lost connection. Null: none. */
export function lastEventIdOf({ headers }: FastifyRequest): string | null {
  const id = headers['last-event-id'];
  return typeof id === 'string' && id !== '' ? id : null;
}

/**
 * Streams events until there are no more, the client leaves or the service ends. Unread events of a slow
 * client stay in the store.
 * @param read returns events after the one with that id; null = from the start
 */
export async function sendLiveEvents(
  reply: FastifyReply,
  watch: FeedWatch,
  start: string | null,
  read: (after: string | null) => Promise<LiveBatch>,
): Promise<void> {
  const signal = abortOnDisconnect(reply);
  // The first read may be refused, with its own status.
  let seen = watch.numChanges;
  let batch = await read(start);
  let after = start;
  const response = beginEventStream(reply);
  const endSigns = showSignsOfLife(response);
  const write = (text: string) => writeWhole(response, text, signal);
  try {
    // An id without data is not an event: it gives the start position to a client that loses the stream
    // before its first event.
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
    // The client has left, or the store is unreadable: the client reconnects and continues after its last
    // event.
  } finally {
    endSigns();
  }
  response.end();
}
