const NEWLINE = 10;

/**
 * Lines of a byte stream, for chunks of any size, even within UTF-8 characters. Reads nothing ahead of its
 * consumer.
 * @param maxBytes of one line
 * @throws {RangeError} for a longer one; Error if the stream ends within one
 */
export async function* jsonLines(
  pieces: AsyncIterable<Buffer>,
  maxBytes: number,
): AsyncGenerator<string, void, undefined> {
  let begun: Buffer[] = [];
  let numBytes = 0;
  for await (const piece of pieces) {
    let from = 0;
    for (let end = piece.indexOf(NEWLINE); end >= 0; end = piece.indexOf(NEWLINE, from)) {
      const rest = piece.subarray(from, end);
      from = end + 1;
      const line = begun.length === 0 ? rest.toString() : Buffer.concat([...begun, rest]).toString();
      begun = [];
      numBytes = 0;
      yield line;
    }
    if (from === piece.length) continue;
    begun.push(piece.subarray(from));
    numBytes += piece.length - from;
    if (numBytes > maxBytes) throw new RangeError(`a line has more than ${maxBytes} bytes`);
  }
  if (numBytes > 0) throw new Error('the stream ended within a line');
}
