import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';

import { Trainyard } from '../client.ts';
import { gather, group } from '../rollouts/gather.ts';
import type { CallOptions } from './connection.ts';

/** Reasons of callers, some of which look like faults of a connection. */
const REASONS: readonly (readonly [name: string, reason: unknown])[] = [
  ['undefined, which is an AbortError', undefined],
  ['null', null],
  ['a string', 'enough'],
  ['an error of a class of its own', new (class LimitError extends Error {})('enough')],
  ['a TypeError', new TypeError('fetch failed')],
  ['a DOMException', new DOMException('too late', 'TimeoutError')],
];

let server: Server;
let client: Trainyard;
/** Answers a request that has been received. */
let answer: (response: ServerResponse) => void;
beforeAll(async () => {
  server = createServer((request, response) => void request.resume().on('end', () => answer(response)));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  client = new Trainyard({ baseUrl: `http://127.0.0.1:${port}/v1`, apiKey: 'k' });
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
});
beforeEach(() => void (answer = () => undefined));

const chat = { model: 'm', messages: [] };
const event = 'id: 1\ndata: {"id":"1","type":"gradient_step","data":{}}\n\n';
const sse = (response: ServerResponse) => response.writeHead(200, { 'content-type': 'text/event-stream' });
const json = (response: ServerResponse, status = 200) =>
  response.writeHead(status, { 'content-type': 'application/json', 'x-should-retry': 'true', 'retry-after': '60' });

/** Sets the answer; resolves once one was sent. */
function answered(how: (response: ServerResponse) => unknown): Promise<void> {
  return new Promise((resolve) => {
    answer = (response) => {
      how(response);
      setImmediate(resolve);
    };
  });
}

/** Reads the item after the first chunk or event. */
async function second(items: AsyncGenerator<unknown>): Promise<unknown> {
  await items.next();
  return await items.next();
}

type Phase = readonly [
  name: string,
  how: (response: ServerResponse) => unknown,
  call: (options: CallOptions) => PromiseLike<unknown>,
];
const WAITING: readonly Phase[] = [
  ['for the headers', () => undefined, (options) => client.models.retrieve('m', options)],
  ['for the rest of a body', (to) => json(to).write('{"id":'), (options) => client.models.retrieve('m', options)],
  [
    'for the headers of a stream',
    () => undefined,
    (options) => client.chat.completions.create({ ...chat, stream: true }, options),
  ],
  [
    'for the first chunk',
    (to) => sse(to).flushHeaders(),
    async (options) => await (await client.chat.completions.create({ ...chat, stream: true }, options)).next(),
  ],
  [
    'for the next chunk',
    (to) => sse(to).write('data: {}\n\n'),
    async (options) => await second(await client.chat.completions.create({ ...chat, stream: true }, options)),
  ],
  ['between two tries', (to) => json(to, 503).end('{}'), (options) => client.models.retrieve('m', options)],
  ['for the next page', (to) => json(to).end('{"data":[{"id":"1"}],"has_more":true,"last_id":"1"}'), turnPages],
  [
    'in the events of a job',
    (to) => sse(to).write(event),
    (options) => second(client.trainingJobs.watch('j', options)),
  ],
  [
    'in the events of the service',
    (to) => sse(to).write(event),
    (options) => second(client.events.watch({}, { ...options, after: '0' })),
  ],
  ['between two connections', (to) => to.destroy(), (options) => client.trainingJobs.watch('j', options).next()],
  [
    'between two looks',
    (to) => json(to).end('{"data":[],"has_more":false}'),
    (options) => client.trainingJobs.watch('j', { ...options, transport: 'poll', pollIntervalMs: 60_000 }).next(),
  ],
  [
    'for the rest of a file',
    (to) => to.writeHead(200).write('half'),
    async (options) => await (await client.exports.download('m', 'e', 'f', options)).arrayBuffer(),
  ],
  ['for the end of a job', (to) => sse(to).write(event), (options) => client.trainingJobs.wait('j', options)],
  ['for an export', (to) => json(to).end('{"status":"running"}'), (options) => client.exports.wait('m', 'e', options)],
];

/** Requests pages until there are no more. */
async function turnPages(options: CallOptions): Promise<unknown> {
  const pages = client.models.list({}, options).pages();
  await pages.next();
  answer = () => undefined;
  return await pages.next();
}

describe.each(REASONS)('aborted with %s', (_name, given) => {
  test.each(WAITING)('while it waits %s', async (_phase, how, call) => {
    const controller = new AbortController();
    const isThere = answered(how);
    const outcome = Promise.resolve(call({ signal: controller.signal })).then(
      (value) => ({ value }),
      (error: unknown) => ({ error }),
    );
    await isThere;
    // The answer is read in the turns after the one in which it was sent.
    for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
    controller.abort(given);
    expect(await outcome).toEqual({ error: controller.signal.reason });
    expect(((await outcome) as { error: unknown }).error).toBe(controller.signal.reason);
  });

  test('before anything is sent', async () => {
    const signal = AbortSignal.abort(given);
    let numSent = 0;
    answer = () => void numSent++;
    for (const [, , call] of WAITING) {
      const error = await Promise.resolve(call({ signal })).catch((reason: unknown) => reason);
      expect(error).toBe(signal.reason);
    }
    expect(numSent).toBe(0);
  });

  test('with events that came before and were not taken yet', async () => {
    answer = (response) => void sse(response).write(event + event.replaceAll('1', '2'));
    const controller = new AbortController();
    const events = client.trainingJobs.watch('j', { signal: controller.signal });
    expect((await events.next()).value).toMatchObject({ id: '1' });
    controller.abort(given);
    expect(await events.next().catch((reason: unknown) => ({ reason }))).toEqual({ reason: controller.signal.reason });
  });

  test('a body that does not listen to the signal is left all the same', async () => {
    const body = () => new ReadableStream({ pull: () => new Promise(() => undefined) });
    const fetch = async () => new Response(body(), { headers: { 'content-type': 'text/event-stream' } });
    const deaf = new Trainyard({ baseUrl: 'http://h/v1', apiKey: 'k', fetch });
    const controller = new AbortController();
    const stream = await deaf.chat.completions.create({ ...chat, stream: true }, { signal: controller.signal });
    const next = stream.next().catch((reason: unknown) => ({ reason }));
    controller.abort(given);
    expect(await next).toEqual({ reason: controller.signal.reason });
  });

  test('a file that does not listen to the signal is left all the same', async () => {
    let left: unknown = 'not yet';
    const body = new ReadableStream({
      pull: () => new Promise(() => undefined),
      cancel: (reason) => void (left = reason),
    });
    const deaf = new Trainyard({ baseUrl: 'http://h/v1', apiKey: 'k', fetch: async () => new Response(body) });
    const controller = new AbortController();
    const file = await deaf.exports.download('m', 'e', 'f', { signal: controller.signal });
    const content = file.arrayBuffer().catch((reason: unknown) => ({ reason }));
    controller.abort(given);
    expect(await content).toEqual({ reason: controller.signal.reason });
    expect(left).toBe(controller.signal.reason);
  });

  test('rollouts that throw their own error', async () => {
    const controller = new AbortController();
    const play = async (_index: number, signal: AbortSignal) =>
      await new Promise<never>((_resolve, reject) => {
        signal.addEventListener('abort', () => reject(new Error('Request was aborted.')));
      });
    const played = gather([group(2, play)], { signal: controller.signal }).catch((reason: unknown) => ({ reason }));
    controller.abort(given);
    expect(await played).toEqual({ reason: controller.signal.reason });
  });
});

test('a broken connection without an abort stays a connection error', async () => {
  answer = (response) => void sse(response).write('data: {}\n\n', () => response.destroy());
  const stream = await client.chat.completions.create(
    { ...chat, stream: true },
    { signal: new AbortController().signal },
  );
  await stream.next();
  await expect(stream.next()).rejects.toMatchObject({ name: 'TrainyardConnectionError' });
});

test('a file with a broken connection is incomplete, and fails like an answer', async () => {
  answer = (response) => void response.writeHead(200, { etag: '"e"' }).write('half', () => response.destroy());
  const file = await client.exports.download('m', 'e', 'f', { signal: new AbortController().signal });
  expect([file.status, file.headers.get('etag'), file.url.endsWith('/exports/e/files/f')]).toEqual([200, '"e"', true]);
  await expect(file.arrayBuffer()).rejects.toMatchObject({
    name: 'TrainyardConnectionError',
    reason: 'the connection broke',
  });
});

test('a file is read as it comes, and who leaves it ends the request', async () => {
  const closed = new Promise<void>((resolve) => {
    answer = (response) => void response.on('close', resolve).writeHead(200).write('half');
  });
  const file = await client.exports.download('m', 'e', 'f');
  for await (const chunk of file.body!) {
    expect(new TextDecoder().decode(chunk)).toBe('half');
    break;
  }
  await closed;
});
