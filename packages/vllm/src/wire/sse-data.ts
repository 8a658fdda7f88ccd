import { createParser } from 'eventsource-parser';

/** Maximum length of an event: the log-probabilities of a whole vocabulary at some places. */
const MAX_EVENT_CHARACTERS = 256 * 1024 * 1024;

/**
 * Yields the data of server-sent events, one string per event, without comments and names.
 * @throws Error for an event that does not end
 */
export async function* sseData(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<string, void, undefined> {
  const decoder = new TextDecoder();
  let events: string[] = [];
  let numSinceEvent = 0;
  const parser = createParser({ onEvent: ({ data }) => void events.push(data) });
  for await (const piece of bytes) {
    const text = decoder.decode(piece, { stream: true });
    parser.feed(text);
    const complete = events;
    events = [];
    numSinceEvent = complete.length > 0 ? 0 : numSinceEvent + text.length;
    if (numSinceEvent > MAX_EVENT_CHARACTERS) throw new Error('an event of the stream is incomplete');
    yield* complete;
  }
}
