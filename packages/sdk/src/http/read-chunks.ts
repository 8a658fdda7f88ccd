import { parsed, TrainyardApiError, TrainyardConnectionError } from './errors.ts';
import { readServerSentEvents } from './server-sent-events.ts';

/**
 * Chunks of a sampled answer, up to `[DONE]` or the end of the stream. Leaving the loop, even before the
 * first chunk, cancels the response.
 *
 * @param signal of the request
 * @throws {TrainyardApiError} for an error sent within the stream (status 200); {TrainyardConnectionError} if
 *   it breaks; the signal's reason
 */
export function readChunks<Chunk>(
  response: Response,
  signal: AbortSignal | undefined,
): AsyncGenerator<Chunk, undefined> {
  const chunks = chunksOf<Chunk>(response, signal);
  const end = chunks.return.bind(chunks);
  // A generator that is left before its first chunk runs none of its code.
  chunks.return = async (value) => {
    if (response.body?.locked === false) await response.body.cancel();
    return await end(value);
  };
  return chunks;
}

async function* chunksOf<Chunk>(response: Response, signal: AbortSignal | undefined): AsyncGenerator<Chunk, undefined> {
  const events = readServerSentEvents(response, { signal });
  try {
    for (;;) {
      const next = await events.next().catch((error: unknown) => {
        // The caller's reason to stop takes precedence over a broken connection.
        throw signal?.aborted ? signal.reason : new TrainyardConnectionError(response.url, error);
      });
      if (next.done === true || next.value.data === '[DONE]') return;
      const chunk = parsed(next.value.data) as Chunk | ErrorChunk;
      if (typeof chunk !== 'object') throw new TrainyardApiError(response, chunk, 'a chunk of the stream is not JSON');
      if (isError(chunk)) throw new TrainyardApiError(response, chunk, 'the stream ended with an error');
      yield chunk;
    }
  } finally {
    await events.return(undefined);
  }
}

interface ErrorChunk {
  readonly error: unknown;
}

/**
 * True for an error. Events of the Responses API have `error: null` within their `response`, not at the top
 * level.
 */
function isError(chunk: unknown): chunk is ErrorChunk {
  return typeof chunk === 'object' && chunk !== null && 'error' in chunk && chunk.error !== null;
}
