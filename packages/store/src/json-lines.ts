/** One UTF-8 line of JSON a value. */
export async function* toJsonLines(values: Iterable<unknown> | AsyncIterable<unknown>): AsyncGenerator<Buffer> {
  for await (const value of values) yield Buffer.from(`${JSON.stringify(value)}\n`, 'utf8');
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
