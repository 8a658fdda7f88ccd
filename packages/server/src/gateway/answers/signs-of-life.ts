import type { ServerResponse } from 'node:http';

/**
 * Interval of checks of all streams: one without writes since the last check gets a comment, so none is
 * silent for longer than two intervals. Proxies close after 50 or 60 s by default, Node's `fetch` after 300
 * s.
 */
export const LOOK_MS = 10_000;
/**
 * Readers of event streams skip lines that start with a colon (HTML Living Standard, 9.2.6). Same text as
 * vLLM's `--sse-keep-alive-interval`.
 */
export const COMMENT = ': keep-alive\n\n';

/** Bytes sent on each stream's connection by the last check. */
const streams = new Map<ServerResponse, number | undefined>();
let timer: NodeJS.Timeout | null = null;

/**
 * Keeps an event stream from being silent, from its headers on. Each write must contain whole events, because
 * comments come between writes.
 * @returns a function to call when the stream ends, for any reason
 */
export function showSignsOfLife(response: ServerResponse): () => void {
  streams.set(response, undefined);
  // One timer for all, so that a stream costs only an entry.
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
    // A client that has not read sent data needs no sign, which would only fill memory.
    if (response.destroyed || response.writableEnded || response.writableNeedDrain) continue;
    const numBytes = response.socket?.bytesWritten;
    if (numBytes === undefined) continue; // queued after another answer of its connection
    if (numBytes === before) response.write(COMMENT);
    streams.set(response, response.socket?.bytesWritten);
  }
}
