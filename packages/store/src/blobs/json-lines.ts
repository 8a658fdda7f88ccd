/** Size of the pieces sent to the compressor: each costs a turn in another thread. */
const PIECE_CHARACTERS = 65_536;

/** A value that is already JSON and is stored unchanged. */
export class JsonLine {
  readonly text: string;

  /** @param text valid JSON */
  constructor(text: string) {
    // In valid JSON, line breaks are white space: strings escape them.
    this.text = text.replaceAll(/[\r\n]+/g, ' ');
  }
}

/** Yields one UTF-8 line of JSON per value, in pieces of whole lines. */
export async function* toJsonLines(values: Iterable<unknown> | AsyncIterable<unknown>): AsyncGenerator<Buffer> {
  let lines = '';
  for await (const value of values) {
    lines += `${value instanceof JsonLine ? value.text : JSON.stringify(value)}\n`;
    if (lines.length < PIECE_CHARACTERS) continue;
    yield Buffer.from(lines, 'utf8');
    lines = '';
  }
  if (lines !== '') yield Buffer.from(lines, 'utf8');
}

/**
 * Parses lines from chunks of any size. Lines end in `\n`; the last one may lack it.
 * @param read parses a line
 */
export async function* parseJsonLines(
  chunks: AsyncIterable<Buffer>,
  read: (line: string) => unknown = JSON.parse,
): AsyncGenerator<unknown> {
  let open: Buffer[] = []; // pieces of the unfinished line
  for await (const chunk of chunks) {
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE); end !== -1; end = chunk.indexOf(NEWLINE, start)) {
      open.push(chunk.subarray(start, end));
      yield read(Buffer.concat(open).toString('utf8'));
      open = [];
      start = end + 1;
    }
    if (start < chunk.length) open.push(chunk.subarray(start));
  }
  if (open.length > 0) yield read(Buffer.concat(open).toString('utf8'));
}

const NEWLINE = 0x0a; // never part of a UTF-8 sequence, so lines are cut before decoding
