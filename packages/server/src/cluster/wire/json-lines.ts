const NEWLINE = 10;

/**
 * The lines of a stream of bytes, however it is cut into pieces; of UTF-8 no character is cut. Nothing is read ahead of who takes them.
 *
 * @param maxBytes of one line
 * @throws {RangeError} for a longer one; Error when the stream ends within one
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
