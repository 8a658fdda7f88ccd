/** Short lines go to the compressor together: each piece costs it a turn in another thread. */
const PIECE_CHARACTERS = 65_536;

/** One UTF-8 line of JSON a value, in pieces of whole lines. */
export async function* toJsonLines(values: Iterable<unknown> | AsyncIterable<unknown>): AsyncGenerator<Buffer> {
  let lines = '';
  for await (const value of values) {
    lines += `${JSON.stringify(value)}\n`;
    if (lines.length < PIECE_CHARACTERS) continue;
    yield Buffer.from(lines, 'utf8');
    lines = '';
  }
  if (lines !== '') yield Buffer.from(lines, 'utf8');
}

/** The values back, however the chunks are cut; lines end in `\n`, the last one may lack it. */
export async function* parseJsonLines(chunks: AsyncIterable<Buffer>): AsyncGenerator<unknown> {
  let open: Buffer[] = []; // pieces of the line that has not ended yet
  for await (const chunk of chunks) {
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE); end !== -1; end = chunk.indexOf(NEWLINE, start)) {
      open.push(chunk.subarray(start, end));
      yield JSON.parse(Buffer.concat(open).toString('utf8'));
      open = [];
      start = end + 1;
    }
    if (start < chunk.length) open.push(chunk.subarray(start));
  }
  if (open.length > 0) yield JSON.parse(Buffer.concat(open).toString('utf8'));
}

const NEWLINE = 0x0a; // never inside a UTF-8 sequence, so a line can be cut out before it is decoded
