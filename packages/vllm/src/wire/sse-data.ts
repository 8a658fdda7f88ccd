/** Longest event: the log-probabilities of a whole vocabulary at some places. */
const MAX_EVENT_CHARACTERS = 256 * 1024 * 1024;

/**
 * The data of server-sent events, one string an event; comments and names are left out.
 * @throws Error for an event that does not end
 */
export async function* sseData(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<string, void, undefined> {
  const decoder = new TextDecoder();
  let rest = '';
  let data: string[] = [];
  for await (const piece of bytes) {
    rest += decoder.decode(piece, { stream: true });
    if (rest.length > MAX_EVENT_CHARACTERS) throw new Error('an event of the stream does not end');
    const lines = rest.split(/\r\n|\n|\r(?!$)/);
    rest = lines.pop()!;
    for (const line of lines) {
      if (line.startsWith('data:')) data.push(line.slice(line.startsWith('data: ') ? 6 : 5));
      else if (line === '' && data.length > 0) {
        yield data.join('\n');
        data = [];
      }
    }
  }
}
