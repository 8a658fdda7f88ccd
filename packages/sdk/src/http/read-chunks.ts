import { parsed, TrainyardApiError, TrainyardConnectionError } from './errors.ts';
import { readServerSentEvents } from './server-sent-events.ts';

/**
 * The chunks of a sampled answer, to `[DONE]` or to the end of the stream. Leaving them, also before the first, cancels the response.
 *
 * @throws {TrainyardApiError} for an error that the service sends inside the stream (status 200)
 */
export function readChunks<Chunk>(response: Response): AsyncGenerator<Chunk, undefined> {
  const chunks = chunksOf<Chunk>(response);
  const end = chunks.return.bind(chunks);
  // A generator that is left before its first chunk runs none of its code.
  chunks.return = async (value) => {
    if (response.body?.locked === false) await response.body.cancel();
    return await end(value);
  };
  return chunks;
}

async function* chunksOf<Chunk>(response: Response): AsyncGenerator<Chunk, undefined> {
  const events = readServerSentEvents(response);
  try {
    for (;;) {
      const next = await events.next().catch((error: unknown) => {
        throw isAbort(error) ? error : new TrainyardConnectionError(response.url, error);
      });
      if (next.done === true || next.value.data === '[DONE]') return;
      const chunk = parsed(next.value.data) as Chunk | ErrorChunk;
      if (typeof chunk !== 'object') throw new TrainyardApiError(response, chunk, 'a chunk of the stream is no JSON');
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

/** Events of the Responses API have `error: null` in their `response`, not beside it. */
function isError(chunk: unknown): chunk is ErrorChunk {
  return typeof chunk === 'object' && chunk !== null && 'error' in chunk && chunk.error !== null;
}

/** The caller's own reason to stop, not a broken connection. Errors of Undici's sockets are TypeErrors. */
const isAbort = (error: unknown) => !(error instanceof TypeError);
