import { RequestError } from '../faults/request-error.ts';

/** Longest line: lines are held and parsed one at a time, in the event loop. */
const MAX_LINE_BYTES = 8_000_000;

const NEWLINE = 0x0a; // never part of a UTF-8 sequence, so lines are cut before decoding

export interface TextLine {
  readonly number: number;
  readonly text: string;
}

/**
 * Lines of a UTF-8 text in chunks of any size. Memory holds one line.
 * @param place of the text in the request, for messages
 * @throws {RequestError} `request.invalid`, with the line number, if it is too long or not UTF-8
 */
export async function* textLines(
  chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  place: readonly (string | number)[],
): AsyncGenerator<TextLine> {
  const decoder = new TextDecoder('utf-8', { fatal: true });
  let pieces: Uint8Array[] = []; // of the unfinished line
  let numBytes = 0;
  let number = 1;
  const add = (piece: Uint8Array) => {
    pieces.push(piece);
    numBytes += piece.length;
    if (numBytes > MAX_LINE_BYTES)
      throw lineFault(place, number, 'too_long', `Line should have at most ${MAX_LINE_BYTES} bytes`);
  };
  const take = (): TextLine => {
    const bytes = Buffer.concat(pieces);
    pieces = [];
    numBytes = 0;
    try {
      return { number: number++, text: decoder.decode(bytes) };
    } catch {
      throw lineFault(place, number - 1, 'unicode_error', 'Line should be UTF-8');
    }
  };
  for await (const chunk of chunks) {
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE); end !== -1; end = chunk.indexOf(NEWLINE, start)) {
      add(chunk.subarray(start, end));
      yield take();
      start = end + 1;
    }
    if (start < chunk.length) add(chunk.subarray(start));
  }
  if (pieces.length > 0) yield take();
}

/** Failed check of a line, as that of the whole request. */
export function lineFault(
  place: readonly (string | number)[],
  lineNumber: number,
  type: string,
  msg: string,
  below: readonly (string | number)[] = [],
): RequestError {
  return RequestError.invalid([{ loc: [...place, 'line', lineNumber, ...below], msg, type }]);
}
