import { createParser, type EventSourceMessage } from 'eventsource-parser';

export interface ServerSentEvent {
  /** Named by `Last-Event-ID`; undefined when the event has none. */
  readonly id: string | undefined;
  readonly data: string;
}

/**
 * The events of a stream: lines end in LF, CRLF or CR, a blank line ends an event, comments and other fields are passed over. Leaving the loop early
 * cancels the response, which aborts the request on the server.
 *
 * Source: HTML Living Standard, 9.2.6 "Interpreting an event stream".
 *
 * @param options `silenceMs`: how long nothing at all may come, comments included; `signal`: what the request was made with, which ends the stream also where
 * its body does not listen to it
 * @throws {StreamSilentError} when it does; the signal's reason when it is aborted before an event was taken, also one that has come already
 */
export async function* readServerSentEvents(
  response: Response,
  options: { silenceMs?: number; signal?: AbortSignal | undefined } = {},
): AsyncGenerator<ServerSentEvent, undefined> {
  if (response.body === null) return;
  // Takes a byte order mark away, and puts the bytes of one character together that came apart.
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let events: ServerSentEvent[] = [];
  const onEvent = ({ id, data }: EventSourceMessage) => void events.push({ id, data });
  const parser = createParser({ onEvent });
  const lineEnds = new CarriageReturns();
  const { silenceMs, signal } = options;
  // The body may have failed already; its error was thrown by `read`.
  const leave = () => reader.cancel().catch(() => undefined);
  const stop = () => void leave();
  signal?.addEventListener('abort', stop, { once: true });
  try {
    for (;;) {
      signal?.throwIfAborted();
      const { value, done } = await within(silenceMs, reader.read());
      signal?.throwIfAborted();
      if (done) return; // an event without its blank line was cut off
      parser.feed(lineEnds.settled(value));
      const complete = events;
      events = [];
      for (const event of complete) {
        signal?.throwIfAborted();
        yield event;
      }
    }
  } catch (error) {
    // Bodies fail with the reason only where it is one that errors can be: Undici takes another for null.
    signal?.throwIfAborted();
    throw error;
  } finally {
    signal?.removeEventListener('abort', stop);
    await leave();
  }
}

/** Nothing came for longer than the service is ever silent: the connection is dead, or something in between holds the stream back. */
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
 * Ends each piece with a whole line end. The parser holds a CR that ends a piece back until it knows whether an LF follows, and so would hold back
 * the event that it ends, for good at the end of the stream.
 */
class CarriageReturns {
  /** An LF that begins the next piece belongs to the CR that ended this one. */
  #awaitsLineFeed = false;

  settled(piece: string): string {
    if (piece === '') return piece;
    const text = this.#awaitsLineFeed && piece.startsWith('\n') ? piece.slice(1) : piece;
    this.#awaitsLineFeed = piece.endsWith('\r');
    return this.#awaitsLineFeed ? `${text}\n` : text;
  }
}
