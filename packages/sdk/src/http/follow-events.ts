import { type CallOptions, type Connection, isEventStream } from './connection.ts';
import { delay } from './delay.ts';
import { TrainyardApiError, TrainyardConnectionError, TrainyardTimeoutError } from './errors.ts';
import { OutageClock, type OutageOptions, PATIENT_OUTAGE_MS } from './outage.ts';
import { backoffMs } from './retry-policy.ts';
import { readServerSentEvents, StreamSilentError } from './server-sent-events.ts';

/** Options of a watch. `maxOutageMs` is 600,000 by default. */
export interface WatchOptions extends OutageOptions {
  readonly signal?: AbortSignal | undefined;
  /** id of the last event already seen */
  readonly after?: string | undefined;
  /** interval of reading pages if streams do not come through; default 1,000 */
  readonly pollIntervalMs?: number | undefined;
  /** `poll` always reads pages; default `auto` */
  readonly transport?: 'auto' | 'poll' | undefined;
}

/** Events readable as pages and as a stream. */
export interface Feed<Event extends { id: string }> {
  /** path of the route, with its parameters */
  readonly path: string;
  readonly query: object;
  readonly pageSize: number;
  /** true to follow from now on, which needs pages in descending order; false to start at the first event */
  readonly startsNow: boolean;
  /** True if no event can follow. */
  isLast(event: Event): boolean;
}

const POLL_INTERVAL_MS = 1_000;
const FIRST_RECONNECT_MS = 250;
const LONGEST_RECONNECT_MS = 5_000;
/** Limit of silence; the service is never silent for more than 20 s. */
const SILENCE_MS = 45_000;
/** Consecutive streams without an event after which a proxy is assumed to hold streams back. */
const MAX_SILENCES = 2;

/**
 * Yields events as they arrive, each once and in order. Continues after a lost connection (`Last-Event-ID`),
 * and reads pages if streams do not come through.
 *
 * @throws {TrainyardApiError} a refusal that repeats cannot fix; {TrainyardConnectionError} if the service
 *   stays unreachable; the signal's reason if it is aborted before an event was taken
 */
export async function* followEvents<Event extends { id: string }>(
  connection: Connection,
  feed: Feed<Event>,
  options: WatchOptions = {},
): AsyncGenerator<Event, undefined> {
  const { signal, maxOutageMs = PATIENT_OUTAGE_MS, onOutage, pollIntervalMs = POLL_INTERVAL_MS } = options;
  const outage = new OutageClock(connection.baseUrl, { maxOutageMs, onOutage });
  const place: Place = { after: options.after ?? null };
  let isStreaming = options.transport !== 'poll';
  let numFailures = 0;
  let numSilences = 0;
  for (;;) {
    try {
      // Requested once: after a connection is lost, even before its first event, the next one continues from
      // there.
      if (feed.startsNow) place.after ??= await newest(connection, feed, signal);
      const events = isStreaming
        ? streamed(connection, feed, place, { signal, outage })
        : polled(connection, feed, place, signal);
      for await (const event of events) {
        place.after = event.id;
        numFailures = numSilences = 0;
        outage.end();
        yield event;
        if (feed.isLast(event)) return;
        signal?.throwIfAborted();
      }
      if (place.isOver) return;
      if (!isStreaming) {
        numFailures = 0;
        outage.end();
        await delay(pollIntervalMs, signal);
        continue;
      }
    } catch (error) {
      signal?.throwIfAborted();
      if (!isPassing(error)) throw error;
      if (error instanceof NoStreamError) {
        isStreaming = false;
        continue;
      }
      if (error instanceof StreamSilentError || error instanceof TrainyardTimeoutError) numSilences++;
      if (numSilences >= MAX_SILENCES) isStreaming = false;
      if (!(error instanceof StreamSilentError) && !outage.note(error, true)) throw error;
    }
    // Streams end with the service, which may be restarting.
    await delay(backoffMs(Math.min(numFailures++, 8), FIRST_RECONNECT_MS, LONGEST_RECONNECT_MS), signal);
  }
}

interface Place {
  after: string | null;
  /** True once the service has reported the end. */
  isOver?: boolean;
}

/** Response other than a stream where one was requested. */
class NoStreamError extends Error {}

async function* streamed<Event extends { id: string }>(
  connection: Connection,
  feed: Feed<Event>,
  place: Place,
  { signal, outage }: { readonly signal: AbortSignal | undefined; readonly outage: OutageClock },
): AsyncGenerator<Event, undefined> {
  const response = await connection.open('GET', feed.path, {
    query: feed.query,
    accept: 'text/event-stream',
    headers: place.after === null ? {} : { 'last-event-id': place.after },
    timeoutMs: SILENCE_MS,
    maxRetries: 0,
    signal,
  });
  outage.end();
  if (response.status === 204) {
    place.isOver = true;
    return;
  }
  if (!isEventStream(response)) {
    await response.body?.cancel();
    throw new NoStreamError();
  }
  try {
    for await (const { data } of readServerSentEvents(response, { silenceMs: SILENCE_MS, signal }))
      yield JSON.parse(data) as Event;
  } catch (error) {
    throw error instanceof StreamSilentError ? error : new TrainyardConnectionError(connection.baseUrl, error);
  }
}

/** Id of the newest event; without any '0', which precedes the first event ever. */
async function newest<Event extends { id: string }>(
  connection: Connection,
  feed: Feed<Event>,
  signal: AbortSignal | undefined,
): Promise<string> {
  const query = { ...feed.query, limit: 1, order: 'desc' };
  const page = await connection.json<{ data: Event[] }>('GET', feed.path, { query, signal, maxRetries: 0 });
  return page.data[0]?.id ?? '0';
}

/** Yields the present events, up to the last page. */
async function* polled<Event extends { id: string }>(
  connection: Connection,
  feed: Feed<Event>,
  place: Place,
  signal: AbortSignal | undefined,
): AsyncGenerator<Event, undefined> {
  const call: CallOptions = { signal, maxRetries: 0 };
  const read = async (after: string | null) =>
    await connection.json<{ data: Event[]; has_more: boolean }>('GET', feed.path, {
      ...call,
      query: { ...feed.query, after, limit: feed.pageSize },
    });
  for (let hasMore = true; hasMore;) {
    const page = await read(place.after);
    yield* page.data;
    hasMore = page.has_more;
  }
}

/** True if the next attempt may succeed. */
function isPassing(error: unknown): boolean {
  if (error instanceof TrainyardApiError) return error.status === 429 || error.status >= 502;
  return (
    error instanceof TrainyardConnectionError || error instanceof StreamSilentError || error instanceof NoStreamError
  );
}
