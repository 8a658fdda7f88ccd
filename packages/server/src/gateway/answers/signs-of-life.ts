import type { ServerResponse } from 'node:http';

/**
 * How often all streams are looked at: one that nothing was written to since the last look gets a comment, so none is silent for longer than two looks.
 * Proxies give up after 50 s or 60 s unless they are told otherwise, Node's `fetch` after 300 s.
 */
export const LOOK_MS = 10_000;
/** Readers of event streams pass over lines that begin with a colon (HTML Living Standard, 9.2.6). vLLM has the same words under `--sse-keep-alive-interval`. */
export const COMMENT = ': keep-alive\n\n';

/** Bytes that the connection of each stream had sent at the last look. */
const streams = new Map<ServerResponse, number | undefined>();
let timer: NodeJS.Timeout | null = null;

/**
 * Keeps a stream of events from being silent, from its headers on. Each of its writes must be whole events, since comments come between them.
 *
 * @returns how to end that; call it when the stream ends, in whatever way
 */
export function showSignsOfLife(response: ServerResponse): () => void {
  streams.set(response, undefined);
  // One for all: beside others a stream costs an entry, however many chunks it has.
  timer ??= setInterval(look, LOOK_MS).unref();
  return () => {
    streams.delete(response);
    if (streams.size > 0 || timer === null) return;
    clearInterval(timer);
    timer = null;
  };
}

function look(): void {
  for (const [response, before] of streams) {
    // Who has not read what was sent already needs no sign, and more would only lie in memory.
    if (response.destroyed || response.writableEnded || response.writableNeedDrain) continue;
    const numBytes = response.socket?.bytesWritten;
    if (numBytes === undefined) continue; // behind another answer of its connection
    if (numBytes === before) response.write(COMMENT);
    streams.set(response, response.socket?.bytesWritten);
  }
}
