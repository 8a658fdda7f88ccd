import { once } from 'node:events';
import type { ServerResponse } from 'node:http';

import type { FastifyReply } from 'fastify';

/**
 * A signal that aborts when the client goes away before the answer is complete.
 * Call it before the first wait of a handler, so that no disconnect is missed.
 */
export function abortOnDisconnect(reply: FastifyReply): AbortSignal {
  const controller = new AbortController();
  const { end } = reply.request;
  end.onEnd(() => {
    if (end.isAbandoned) controller.abort(new DOMException('the client went away', 'AbortError'));
  });
  return controller.signal;
}

/**
 * Sends values as server-sent events, `data: <json>` each, then `data: [DONE]`.
 *
 * Pulls the next value only when the socket has taken the last ones, so a client that stops reading stops the source. When the
 * client goes away the source is ended and nothing more is written. A failure of the source becomes one last event.
 *
 * @param toErrorEvent the event for a failure after the headers
 */
export async function sendEventStream(
  reply: FastifyReply,
  values: AsyncIterable<object>,
  options: { signal: AbortSignal; toErrorEvent: (error: unknown) => object },
): Promise<void> {
  const { signal, toErrorEvent } = options;
  reply.hijack();
  const response = reply.raw;
  response.writeHead(200, {
    ...toNodeHeaders(reply),
    'content-type': 'text/event-stream; charset=utf-8',
    'cache-control': 'no-cache',
    // Reverse proxies would hold events back until their buffer is full.
    'x-accel-buffering': 'no',
  });
  try {
    for await (const value of values) {
      await write(response, `data: ${JSON.stringify(value)}\n\n`, signal);
    }
  } catch (error) {
    if (signal.aborted) return;
    response.write(`data: ${JSON.stringify(toErrorEvent(error))}\n\n`);
  }
  if (!signal.aborted) response.end('data: [DONE]\n\n');
}

async function write(response: ServerResponse, text: string, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  if (!response.write(text)) await once(response, 'drain', { signal });
}

function toNodeHeaders(reply: FastifyReply): Record<string, string | string[]> {
  const headers: Record<string, string | string[]> = {};
  for (const [name, value] of Object.entries(reply.getHeaders())) {
    if (value !== undefined) headers[name] = Array.isArray(value) ? value : String(value);
  }
  return headers;
}
