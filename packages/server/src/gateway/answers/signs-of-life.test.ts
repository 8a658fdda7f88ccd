import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { connect, type Socket } from 'node:net';

import Fastify, { type FastifyInstance } from 'fastify';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';

import { trackRequestEnds } from '../edge/request-end.ts';
import { FeedWatch } from './feed-watch.ts';
import { sendLiveEvents } from './live-events.ts';
import { LOOK_MS } from './signs-of-life.ts';
import { abortOnDisconnect, sendEventStream } from './sse.ts';

const COMMENT = ': keep-alive\n\n';
let app: FastifyInstance;
let origin: string;
let values: () => AsyncIterable<object>;
/** Ends the stream of `/events`. */
let watch: FeedWatch;
let position: number;
let lastResponse: ServerResponse | undefined;

beforeEach(async () => {
  // Sockets need the other timers.
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  position = 0;
  lastResponse = undefined;
  const feed = { lastPosition: async () => position, watch: () => () => undefined };
  watch = new FeedWatch(feed, 5);
  app = Fastify();
  trackRequestEnds(app);
  app.addHook('onRequest', async (_request, reply) => void (lastResponse = reply.raw));
  app.get('/chunks', async (_request, reply) => {
    const signal = abortOnDisconnect(reply);
    await sendEventStream(reply, values(), { signal, toErrorEvent: () => ({}) });
    return reply;
  });
  app.get('/events', async (_request, reply) => {
    await sendLiveEvents(reply, watch, '0', async () => ({ events: [], isOver: false }));
    return reply;
  });
  await app.listen({ port: 0, host: '127.0.0.1' });
  origin = `http://127.0.0.1:${(app.server.address() as { port: number }).port}`;
});
afterEach(async () => {
  watch.close();
  app.server.closeAllConnections();
  await app.close();
  vi.useRealTimers();
});

/** Chunks of an answer as they come. */
async function open(path: string) {
  const response = await fetch(origin + path);
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  return { read: async () => (await reader.read()).value, leave: () => reader.cancel() };
}

/** A source that yields a value on demand. */
function source() {
  let next = Promise.withResolvers<object | null>();
  values = async function* () {
    for (;;) {
      const value = await next.promise;
      next = Promise.withResolvers();
      if (value === null) return;
      yield value;
    }
  };
  return { give: (value: object | null) => next.resolve(value) };
}

test('a started stream is never silent for longer than two intervals, and comments come between whole events', async () => {
  const { give } = source();
  const opening = open('/chunks');
  await vi.waitFor(() => expect(lastResponse?.headersSent).toBe(true), 60_000);
  give({ at: 0 });
  const { read } = await opening;
  expect(await read()).toBe('data: {"at":0}\n\n');
  vi.advanceTimersByTime(2 * LOOK_MS);
  expect(await read()).toBe(COMMENT);
  give({ at: 1 });
  expect(await read()).toBe('data: {"at":1}\n\n');
  vi.advanceTimersByTime(LOOK_MS);
  give({ at: 2 });
  expect(await read()).toBe('data: {"at":2}\n\n');
  vi.advanceTimersByTime(2 * LOOK_MS);
  expect(await read()).toBe(COMMENT);
  give(null);
  expect(await read()).toBe('data: [DONE]\n\n');
  expect(await read()).toBeUndefined();
});

test('all streams share one timer, which stops with the last of them', async () => {
  const { give } = source();
  const opening = [open('/chunks'), open('/events'), open('/events')];
  const [chunks, first, second] = [await (give({}), opening[0]!), await opening[1]!, await opening[2]!];
  expect(vi.getTimerCount()).toBe(1);
  give(null);
  while ((await chunks.read()) !== undefined);
  await first.leave();
  await second.leave();
  await vi.waitFor(() => expect(vi.getTimerCount()).toBe(0), 60_000);
});

test('events of others do not make a stream silent that has none', async () => {
  const { read, leave } = await open('/events');
  expect(await read()).toBe('retry: 2000\nid: 0\n\n');
  for (let looks = 0; looks < 4; looks++) {
    position += 1;
    vi.advanceTimersByTime(LOOK_MS);
  }
  expect((await read())?.startsWith(COMMENT)).toBe(true);
  await leave();
});

test('a client that does not read gets no more comments', async () => {
  const { give } = source();
  const socket: Socket = connect(Number(new URL(origin).port), '127.0.0.1');
  await once(socket, 'connect');
  socket.pause().write('GET /chunks HTTP/1.1\r\nHost: h\r\n\r\n');
  await vi.waitFor(() => expect(lastResponse?.headersSent).toBe(true), 60_000);
  const response = lastResponse!;
  give({ text: 'x'.repeat(20_000_000) });
  await vi.waitFor(() => expect(response.writableNeedDrain).toBe(true), 60_000);
  const write = vi.spyOn(response, 'write');
  vi.advanceTimersByTime(10 * LOOK_MS);
  expect(write).not.toHaveBeenCalled();
  socket.destroy();
});
