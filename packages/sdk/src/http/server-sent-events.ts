import { createParser, type EventSourceMessage } from 'eventsource-parser';

export interface ServerSentEvent {
  /** Id for `Last-Event-ID`; undefined if the event has none. */
  readonly id: string | undefined;
  readonly data: string;
}

/**
 * Events of a stream: lines end in LF, CRLF or CR, a blank line ends an event; skips comments and other
 * fields. Leaving the loop early cancels the response, which aborts the request on the server.
 *
 * Source: HTML Living Standard, 9.2.6 "Interpreting an event stream".
 *
 * @param options `silenceMs`: maximum time without any byte, comments included; `signal`: of the request;
 *   ends the stream even if its body ignores it
 * @throws {StreamSilentError} after `silenceMs`; the signal's reason if aborted before an event was taken,
 *   even one that has arrived
 */
export async function* readServerSentEvents(
  response: Response,
  options: { silenceMs?: number; signal?: AbortSignal | undefined } = {},
): AsyncGenerator<ServerSentEvent, undefined> {
  if (response.body === null) return;
  // Removes a byte order mark, and joins the bytes of a character that arrived separately.
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let events: ServerSentEvent[] = [];
  const onEvent = ({ id, data }: EventSourceMessage) => void events.push({ id, data });
  const parser = createParser({ onEvent });
  const lineEnds = new CarriageReturns();
  const { silenceMs, signal } = options;
  // The body may have failed already; `read` threw its error.
  const leave = () => reader.cancel().catch(() => undefined);
  const stop = () => void leave();
  signal?.addEventListener('abort', stop, { once: true });
  try {
    for (;;) {
      signal?.throwIfAborted();
      const { value, done } = await within(silenceMs, reader.read());
      signal?.throwIfAborted();
      if (done) return; // an event without its blank line is incomplete
      parser.feed(lineEnds.settled(value));
      const complete = events;
      events = [];
      for (const event of complete) {
        signal?.throwIfAborted();
        yield event;
      }
    }
  } catch (error) {
    // Bodies fail with the reason only if it can be an error: Undici replaces null.
    signal?.throwIfAborted();
    throw error;
  } finally {
    signal?.removeEventListener('abort', stop);
    await leave();
  }
}

/**
 * The stream was silent for longer than the service ever is: the connection is dead, or a proxy holds the
 * stream back.
 */
export class StreamSilentError extends Error {
  override readonly name = 'StreamSilentError';
}

async function within<Value>(ms: number | undefined, value: Promise<Value>): Promise<Value> {
  if (ms === undefined) return await value;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const silence = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new StreamSilentError(`the stream was silent for ${ms / 1000} s`)), ms);
  });
  try {
    return await Promise.race([value, silence]);
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Ends each piece with a complete line end. The parser holds a trailing CR until it has seen if an LF
 * follows, and with it the event it ends, forever at the end of the stream.
 */
class CarriageReturns {
  /** True if a leading LF of the next piece belongs to the CR that ended this one. */
  #awaitsLineFeed = false;

  settled(piece: string): string {
    if (piece === '') return piece;
    const text = this.#awaitsLineFeed && piece.startsWith('\n') ? piece.slice(1) : piece;
    this.#awaitsLineFeed = piece.endsWith('\r');
    return this.#awaitsLineFeed ? `${text}\n` : text;
  }
}
