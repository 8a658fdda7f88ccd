import { createParser } from 'eventsource-parser';

/**
 * The `data` of each event of a stream: lines end in LF, CRLF or CR, a blank line ends an event, comments and other fields are passed over.
 * Leaving the loop early cancels the response, which aborts the request on the server.
 *
 * Source: HTML Living Standard, 9.2.6 "Interpreting an event stream".
 */
export async function* readServerSentEvents(response: Response): AsyncGenerator<string> {
  if (response.body === null) return;
  // Takes a byte order mark away, and puts the bytes of one character together that came apart.
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let events: string[] = [];
  const parser = createParser({ onEvent: ({ data }) => void events.push(data) });
  const lineEnds = new CarriageReturns();
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return; // an event without its blank line was cut off
      parser.feed(lineEnds.settled(value));
      const complete = events;
      events = [];
      yield* complete;
    }
  } finally {
    await reader.cancel().catch(() => undefined); // the body may have failed already; its error was thrown by `read`
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
