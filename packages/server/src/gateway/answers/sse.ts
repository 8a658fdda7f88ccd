import { once } from 'node:events';
import type { ServerResponse } from 'node:http';

import type { FastifyReply } from 'fastify';

import { toOrderedJson } from '../../seams/json/ordered-json.ts';
import { COMMENT, showSignsOfLife } from './signs-of-life.ts';

/**
 * Signal that aborts if the client leaves before the answer is complete. Call it before the first await of a
 * handler, so that no disconnect is missed.
 */
export function abortOnDisconnect(reply: FastifyReply): AbortSignal {
  const controller = new AbortController();
  const { end } = reply.request;
  end.onEnd(() => {
    if (end.isAbandoned) controller.abort(new DOMException('the client disconnected', 'AbortError'));
  });
  return controller.signal;
}

/**
 * Sends values as server-sent events, `data: <json>` each, then `data: [DONE]`. Named ones have their `type`
 * as the event's name, and no end marker. Pulls the next value only when the socket has taken the last ones.
 * If the client leaves, the source is ended. A failure of the source becomes the last event. Comments are
 * sent while the source is silent.
 * @param options.startsLate sends a comment first, because the client has waited. Default false.
 * @param options.toErrorEvent the event, or events, for a failure after the headers
 */
export async function sendEventStream(
  reply: FastifyReply,
  values: AsyncIterable<object>,
  options: {
    signal: AbortSignal;
    toErrorEvent: (error: unknown) => object | readonly object[];
    isNamed?: boolean;
    startsLate?: boolean;
  },
): Promise<void> {
  const { signal, toErrorEvent, isNamed = false, startsLate = false } = options;
  const response = beginEventStream(reply);
  if (startsLate) response.write(COMMENT);
  const writer = new GatheringWriter(response, signal);
  const endSigns = showSignsOfLife(response);
  try {
    for await (const value of values) {
      const isTaken = writer.write(toEvent(value, isNamed));
      if (isTaken !== null) await isTaken;
    }
  } catch (error) {
    if (signal.aborted) return;
    for (const event of [toErrorEvent(error)].flat()) void writer.write(toEvent(event as object, isNamed));
  } finally {
    endSigns();
  }
  if (!signal.aborted) writer.end(isNamed ? '' : 'data: [DONE]\n\n');
}

/** Larger output is sent at once, so that a source that never waits is slowed by its reader. */
const MAX_GATHERED_CHARACTERS = 65_536;

/** Joins the writes of one turn of the event loop: an engine step has several events of a request. */
class GatheringWriter {
  readonly #response: ServerResponse;
  readonly #signal: AbortSignal;
  #gathered = '';

  constructor(response: ServerResponse, signal: AbortSignal) {
    this.#response = response;
    this.#signal = signal;
  }

  /** @returns a promise to await before more is written; null: none @throws the signal's reason */
  write(text: string): Promise<unknown> | null {
    this.#signal.throwIfAborted();
    // Runs after all resolved promises, whose writes are included.
    if (this.#gathered === '') process.nextTick(this.#flush);
    this.#gathered += text;
    if (this.#gathered.length >= MAX_GATHERED_CHARACTERS) this.#flush();
    return this.#response.writableNeedDrain ? once(this.#response, 'drain', { signal: this.#signal }) : null;
  }

  end(text: string): void {
    const last = this.#gathered + text;
    this.#gathered = '';
    this.#response.end(last);
  }

  readonly #flush = (): void => {
    const text = this.#gathered;
    this.#gathered = '';
    if (text !== '' && !this.#signal.aborted) this.#response.write(text);
  };
}

function toEvent(value: object, isNamed: boolean): string {
  const name = isNamed && 'type' in value ? `event: ${String(value.type)}\n` : '';
  return `${name}data: ${toOrderedJson(value)}\n\n`;
}

/** Sends the headers of an event stream; the caller writes the rest. */
export function beginEventStream(reply: FastifyReply): ServerResponse {
  reply.hijack();
  return reply.raw.writeHead(200, {
    ...toNodeHeaders(reply),
    'content-type': 'text/event-stream; charset=utf-8',
    'cache-control': 'no-cache',
    // Reverse proxies would hold back events until their buffer is full.
    'x-accel-buffering': 'no',
  });
}

/** Resolves when the socket takes more. @throws the signal's reason */
export async function writeWhole(response: ServerResponse, text: string, signal: AbortSignal): Promise<void> {
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
