/**
 * The `data` of each event of a stream, as the HTML standard reads them: lines end in LF, CRLF or CR, a blank line ends an event, comments and
 * other fields are passed over. Leaving the loop early cancels the response, which aborts the request on the server.
 *
 * Source: HTML Living Standard, 9.2.6 "Interpreting an event stream".
 */
export async function* readServerSentEvents(response: Response): AsyncGenerator<string> {
  if (response.body === null) return;
  // Takes a byte order mark away, and bytes of one character together that came apart.
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  const lines = new LineSplitter();
  let data: string[] = [];
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return; // an event without its blank line was cut off
      for (const line of lines.push(value)) {
        if (line === '') {
          if (data.length > 0) yield data.join('\n');
          data = [];
        } else if (line === 'data') {
          data.push('');
        } else if (line.startsWith('data:')) {
          data.push(line.slice(line[5] === ' ' ? 6 : 5));
        }
      }
    }
  } finally {
    await reader.cancel().catch(() => undefined); // the body may have failed already; its error was thrown by `read`
  }
}

/** Text in pieces → whole lines. */
class LineSplitter {
  #rest = '';
  /** A CR that ended a piece: an LF that begins the next one belongs to it. */
  #endedInCarriageReturn = false;

  push(piece: string): string[] {
    if (piece === '') return [];
    const text = this.#endedInCarriageReturn && piece.startsWith('\n') ? piece.slice(1) : piece;
    this.#endedInCarriageReturn = piece.endsWith('\r');
    const lines = (this.#rest + text).split(/\r\n|\n|\r/);
    this.#rest = lines.pop() ?? '';
    return lines;
  }
}
