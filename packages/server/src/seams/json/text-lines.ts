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
      throw lineFault({ place, line: number }, 'too_long', `Line should have at most ${MAX_LINE_BYTES} bytes`);
  };
  const take = (): TextLine => {
    const bytes = Buffer.concat(pieces);
    pieces = [];
    numBytes = 0;
    try {
      return { number: number++, text: decoder.decode(bytes) };
    } catch {
      throw lineFault({ place, line: number - 1 }, 'unicode_error', 'Line should be UTF-8');
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

export interface LinePlace {
  readonly place: readonly (string | number)[];
  /** From 1. */
  readonly line: number;
  /** Path within the line. Default: the line itself. */
  readonly below?: readonly (string | number)[];
}

/** Failed check of a line, as that of the whole request. */
export function lineFault({ place, line, below = [] }: LinePlace, type: string, msg: string): RequestError {
  return RequestError.invalid([{ loc: [...place, 'line', line, ...below], msg, type }]);
}
