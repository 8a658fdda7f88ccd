import { connect } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';

import Fastify, { type FastifyInstance } from 'fastify';
import { afterEach, beforeEach, expect, test } from 'vitest';

import { trackRequestEnds } from '../edge/request-end.ts';
import { abortOnDisconnect, sendEventStream } from './sse.ts';

let app: FastifyInstance;
let port: number;
/** Values of the stream. */
let values: () => AsyncIterable<object>;
let numWrites = 0;

beforeEach(async () => {
  numWrites = 0;
  app = Fastify();
  trackRequestEnds(app);
  app.get('/', async (_request, reply) => {
    const signal = abortOnDisconnect(reply);
    const write = reply.raw.write.bind(reply.raw) as (text: string) => boolean;
    reply.raw.write = ((text: string) => {
      numWrites += 1;
      return write(text);
    }) as typeof reply.raw.write;
    await sendEventStream(reply, values(), { signal, toErrorEvent: (error) => ({ error: (error as Error).message }) });
    return reply;
  });
  await app.listen({ port: 0, host: '127.0.0.1' });
  port = (app.server.address() as { port: number }).port;
});

afterEach(() => app.close());

const read = async () => (await fetch(`http://127.0.0.1:${port}/`)).text();
const numbered = (count: number) => Array.from({ length: count }, (_, at) => ({ at }));
const events = (all: readonly object[]) => all.map((value) => `data: ${JSON.stringify(value)}\n\n`).join('');

test('events that are ready go out in one piece, later ones as they come', async () => {
  values = async function* () {
    yield* numbered(5);
    await delay(20);
    yield* numbered(3);
    await delay(20);
  };
  expect(await read()).toBe(`${events(numbered(5))}${events(numbered(3))}data: [DONE]\n\n`);
  expect(numWrites).toBe(2);
});

test('events before the first byte go out with the end', async () => {
  values = async function* () {
    yield* numbered(5);
  };
  expect(await read()).toBe(`${events(numbered(5))}data: [DONE]\n\n`);
  expect(numWrites).toBe(0);
});

test('a failure after gathered events is the last event', async () => {
  values = async function* () {
    yield* numbered(2);
    throw new Error('it broke');
  };
  expect(await read()).toBe(`${events([...numbered(2), { error: 'it broke' }])}data: [DONE]\n\n`);
});

test('a source that never waits is paused by a client that does not read, and resumes with it', async () => {
  const large = { text: 'x'.repeat(10_000) };
  let numTaken = 0;
  values = async function* () {
    for (; numTaken < 2_000; numTaken++) yield large;
  };
  const socket = connect(port, '127.0.0.1');
  socket.pause().write('GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n');
  let before = -1;
  while (before !== numTaken || numTaken === 0) {
    before = numTaken;
    await delay(100);
  }
  console.log(`${numTaken} of 2000 events of 10 kB were pulled without a reader`);
  expect(numTaken).toBeLessThan(1_500);
  let numBytes = 0;
  for await (const piece of socket.resume()) {
    numBytes += (piece as Buffer).length;
    if ((piece as Buffer).toString('latin1').endsWith('\r\n0\r\n\r\n')) break;
  }
  expect(numTaken).toBe(2_000);
  expect(numBytes).toBeGreaterThan(20_000_000);
});

test('a client that leaves ends the source', async () => {
  const ended = Promise.withResolvers<void>();
  values = async function* () {
    try {
      for (;;) {
        yield { at: 0 };
        await delay(5);
      }
    } finally {
      ended.resolve();
    }
  };
  const leaving = new AbortController();
  const response = await fetch(`http://127.0.0.1:${port}/`, { signal: leaving.signal });
  await response.body!.getReader().read();
  leaving.abort();
  await expect(ended.promise).resolves.toBeUndefined();
});
