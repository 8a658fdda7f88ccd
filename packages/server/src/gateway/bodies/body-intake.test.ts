import { type ClientRequest, request as httpRequest } from 'node:http';
import { connect, type Socket } from 'node:net';

import { afterEach, expect, test, vi } from 'vitest';
import type { ErrorBody } from '@trainyard/protocol';

import type { HttpLimits } from '../parts/server-parts.ts';
import { replies, ScriptedInference } from '../../testing/scripted-inference.ts';
import { TestServer } from '../../testing/test-server.ts';
import { ByteBudget, type BodyBudgets } from './byte-budget.ts';

/** A body is charged from its 65,537th byte on; above this size it is parsed in another thread. */
const LARGE = 1_100_000;
const LIMIT = 3_000_000;

vi.setConfig({ testTimeout: 120_000 });

let server: TestServer;
let url: URL;
let modelId: string;
let budgets: BodyBudgets;
const sockets = new Set<Socket>();

async function start(limits: Partial<HttpLimits> = {}): Promise<void> {
  budgets = { requests: new ByteBudget(1_000_000), uploads: new ByteBudget(4 * LIMIT) };
  server = await TestServer.startOn(new ScriptedInference(), { previewBodyBytes: LIMIT, ...limits }, null, {
    bodyBudgets: budgets,
  });
  modelId = await server.makeModel('agent');
  url = new URL(await server.app.listen({ port: 0, host: '127.0.0.1' }));
}
afterEach(async () => {
  for (const socket of sockets) socket.destroy();
  sockets.clear();
  await server.close();
});

const logPath = () => `/v1/preview/models/${modelId}/log`;
const logBody = (padding: number) =>
  Buffer.from(JSON.stringify({ split: 'val', trajectory_groups: [{ trajectories: [], logs: ['p'.repeat(padding)] }] }));

/** Every route with a body, with one that is incomplete. */
const BODY_ROUTES = () =>
  [
    ['POST', '/v1/chat/completions', 'application/json'],
    ['POST', '/v1/completions', 'application/json'],
    ['POST', '/v1/tokenize', 'application/json'],
    ['POST', '/v1/preview/models', 'application/json'],
    ['POST', '/v1/preview/training-jobs', 'application/json'],
    ['POST', '/v1/preview/sft-training-jobs', 'application/json'],
    ['POST', logPath(), 'application/json'],
    ['DELETE', `/v1/preview/models/${modelId}/checkpoints`, 'application/json'],
    ['POST', '/v1/preview/artifacts/acme/demo/file', 'application/jsonl'],
  ] as const;

interface Answer {
  status: number;
  body: ErrorBody;
  connection: string | undefined;
}

/** A request with an unsent body; without a length it is chunked. */
function begin(
  [method, path, type]: readonly [string, string, string],
  options: { length?: number; key?: string } = {},
): { outgoing: ClientRequest; answer: Promise<Answer> } {
  const { promise, resolve } = Promise.withResolvers<Answer>();
  const headers = {
    authorization: `Bearer ${options.key ?? server.key}`,
    'content-type': type,
    ...(options.length === undefined ? {} : { 'content-length': options.length }),
  };
  const outgoing = httpRequest(new URL(path, url), { method, headers, agent: false }, (response) => {
    let text = '';
    response.setEncoding('utf8').on('data', (piece: string) => (text += piece));
    response.on('end', () =>
      resolve({
        status: response.statusCode ?? 0,
        body: JSON.parse(text) as ErrorBody,
        connection: response.headers.connection,
      }),
    );
  });
  outgoing.on('error', () => undefined);
  outgoing.on('socket', (socket) => sockets.add(socket));
  return { outgoing, answer: promise };
}

const logRoute = () => ['POST', logPath(), 'application/json'] as const;

async function logs(key = server.key): Promise<number> {
  const body = logBody(LARGE);
  const { outgoing, answer } = begin(logRoute(), { length: body.length, key });
  outgoing.end(body);
  return (await answer).status;
}

const areWhole = () => budgets.requests.isWhole && budgets.uploads.isWhole;
const bothWhole = () => vi.waitFor(() => expect(areWhole()).toBe(true), 60_000);

test('a client that leaves before the answer takes nothing with it: a chunked upload is answered', async () => {
  await start();
  const body = logBody(1_500_000);
  const { outgoing } = begin(logRoute(), { length: body.length });
  await new Promise<void>((resolve) => void outgoing.end(body, () => resolve()));
  outgoing.destroy();
  const chunked = begin(logRoute());
  chunked.outgoing.end(body);
  expect((await chunked.answer).status).toBe(200);
  await bothWhole();
});

test('small bodies on one connection are read whole: with their heads, in two pieces, and pipelined', async () => {
  await start();
  const body = Buffer.from(JSON.stringify({ prompt: 'hé' }));
  const head = `POST /v1/tokenize HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${server.key}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n`;
  const socket = connect(Number(url.port), url.hostname);
  sockets.add(socket);
  let text = '';
  socket.setEncoding('utf8').on('data', (piece: string) => (text += piece));
  const numAnswers = () => text.split('HTTP/1.1 200 OK').length - 1;
  const whole = Buffer.concat([Buffer.from(head), body]);
  socket.write(whole);
  await vi.waitFor(() => expect(numAnswers()).toBe(1), 60_000);
  socket.write(Buffer.concat([Buffer.from(head), body.subarray(0, 5)]));
  await new Promise((resolve) => setTimeout(resolve, 50));
  socket.write(body.subarray(5));
  await vi.waitFor(() => expect(numAnswers()).toBe(2), 60_000);
  socket.write(Buffer.concat([whole, whole, whole]));
  await vi.waitFor(() => expect(numAnswers()).toBe(5), 60_000);
  await bothWhole();
});

test('1,000 clients that leave at every point leave the budget whole', { timeout: 240_000 }, async () => {
  await start();
  const body = logBody(LARGE);
  const json = Buffer.from(JSON.stringify({ messages: [{ role: 'user', content: 'x'.repeat(300_000) }] }));
  const head = (path: string, framing: string) =>
    `POST ${path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${server.key}\r\nContent-Type: application/json\r\n${framing}\r\n\r\n`;
  const whole = (path: string, content: Buffer, isChunked: boolean) =>
    Buffer.concat(
      isChunked
        ? [
            Buffer.from(head(path, 'Transfer-Encoding: chunked')),
            Buffer.from(`${content.length.toString(16)}\r\n`),
            content,
            Buffer.from('\r\n0\r\n\r\n'),
          ]
        : [Buffer.from(head(path, `Content-Length: ${content.length}`)), content],
    );
  const messages = [
    whole(logPath(), body, false),
    whole(logPath(), body, true),
    whole('/v1/preview/training-jobs', body, false),
    whole('/v1/chat/completions', json, false),
    // Two pipelined requests on one connection: the second response is never attached to it.
    Buffer.concat([whole(logPath(), body, false), whole(logPath(), body, true)]),
  ];
  const round = async (index: number): Promise<void> => {
    const message = messages[index % messages.length] as Buffer;
    // Cuts at positions in the head, in the body, and at the end.
    const point =
      index % 3 === 0 ? 1 + ((index * 7) % 300) : Math.min(message.length, ((index * 37) % 41) * (message.length / 40));
    const socket = connect(Number(url.port), url.hostname);
    sockets.add(socket);
    socket.on('error', () => undefined);
    await new Promise<void>((resolve) => {
      socket.once('close', () => resolve());
      socket.write(message.subarray(0, point), () => {
        if (index % 2 === 0) socket.destroy();
        else socket.resetAndDestroy();
      });
    });
    sockets.delete(socket);
  };
  let next = 0;
  const lane = async () => {
    for (let index = next++; index < 1000; index = next++) await round(index);
  };
  await Promise.all(Array.from({ length: 8 }, lane));
  await bothWhole();
  expect(await logs()).toBe(200);
});

test('a stalled upload blocks no other upload, of its key or of another', async () => {
  await start();
  const stalled = [begin(logRoute(), { length: LIMIT }), begin(logRoute())];
  for (const { outgoing } of stalled) outgoing.write(Buffer.alloc(1_200_000, ' '));
  await vi.waitFor(() => expect(budgets.uploads.isWhole).toBe(false), 60_000);
  expect(await logs(await server.makeKey('acme', ['training']))).toBe(200);
  expect(await logs()).toBe(200);
  for (const { outgoing } of stalled) outgoing.destroy();
  await bothWhole();
});

test(
  'bodies of one key that fill its share wait, and are refused when no room comes',
  { timeout: 60_000 },
  async () => {
    await start({ maxBodyWaitMs: 50 });
    const stalled = Array.from({ length: 8 }, () => begin(logRoute()));
    for (const { outgoing } of stalled) outgoing.write(Buffer.alloc(2_000_000, ' '));
    const { status, body } = await Promise.race(stalled.map(({ answer }) => answer));
    expect([status, body.error.code]).toEqual([429, 'request.too_many']);
    expect(await logs(await server.makeKey('acme', ['training']))).toBe(200);
    for (const { outgoing } of stalled) outgoing.destroy();
    await bothWhole();
  },
);

test(
  'a body that stops, or drips, is 408 on every route that takes one, and its connection ends',
  { timeout: 60_000 },
  async () => {
    await start({ bodyWindowMs: 100, minBodyBytesPerSecond: 10_000 });
    for (const route of BODY_ROUTES()) {
      for (const drips of [false, true]) {
        const { outgoing, answer } = begin(route, { length: 100_000 });
        outgoing.write('{');
        const timer = drips ? setInterval(() => outgoing.write(' '), 20) : undefined;
        const { status, body, connection } = await answer;
        clearInterval(timer);
        expect([route[1], status, body.error.code, connection]).toEqual([route[1], 408, 'request.timeout', 'close']);
        expect(body.error.message).toContain('the minimum is 1000');
      }
    }
    await bothWhole();
  },
);

test('a body that keeps the pace and never ends is 408', async () => {
  await start({ bodyTimeoutMs: 200, bodyWindowMs: 20, minBodyBytesPerSecond: 1 });
  const { outgoing, answer } = begin(logRoute());
  const timer = setInterval(() => outgoing.write(' '), 5);
  const { status, body } = await answer;
  clearInterval(timer);
  expect([status, body.error.message]).toEqual([408, 'The body was not received within 0.2 s; send it again']);
  await bothWhole();
});

test('bytes that are no UTF-8 are refused, small and large, at their place', async () => {
  await start();
  const bad = Buffer.from([0xc3, 0x28]);
  for (const path of ['/v1/chat/completions', logPath(), '/v1/preview/training-jobs']) {
    for (const padding of path === '/v1/chat/completions' ? [0, 100_000] : [0, LARGE]) {
      const before = Buffer.from(`{"é": "${'p'.repeat(padding)}`);
      const payload = Buffer.concat([before, bad, Buffer.from('"}')]);
      const headers = { authorization: `Bearer ${server.key}`, 'content-type': 'application/json' };
      const response = await server.app.inject({ method: 'POST', url: path, headers, payload });
      const { error, detail } = response.json<ErrorBody>();
      expect([response.statusCode, error.code]).toEqual([path.includes('preview') ? 422 : 400, 'request.invalid_json']);
      expect(detail).toMatchObject([{ loc: ['body', before.length], type: 'json_invalid' }]);
    }
  }
  await bothWhole();
});

test('a request in flight is charged for its body until it ends; further ones of its key wait, then get a retry hint', async () => {
  await start({ maxBodyWaitMs: 50 });
  const { inference } = server;
  const open = Promise.withResolvers<void>();
  inference.script = async function* (request) {
    await open.promise;
    yield* replies(request, [{ ids: [5], text: 'a' }]);
  };
  // A field outside the prompt: only the size of bodies limits it.
  const body = JSON.stringify({
    messages: [{ role: 'user', content: 'Hi' }],
    chat_template_kwargs: { padding: 'p'.repeat(200_000) },
  });
  const send = (key?: string) => {
    const { outgoing, answer } = begin(
      ['POST', '/v1/chat/completions', 'application/json'],
      key === undefined ? {} : { key },
    );
    outgoing.end(body);
    return answer;
  };
  const sent = Array.from({ length: 8 }, () => send());
  const told: Answer[] = [];
  for (const answer of sent) void answer.then((one) => told.push(one));
  // Three in the key's share, and one in the reserve.
  await vi.waitFor(() => expect([inference.requests.length, told.length]).toEqual([4, 4]), 60_000);
  expect(told.map(({ status, body: { error } }) => [status, error.code])).toEqual(
    Array.from({ length: 4 }, () => [429, 'request.too_many']),
  );
  const other = send(await server.makeKey('acme', ['inference']));
  await vi.waitFor(() => expect(inference.requests).toHaveLength(5), 60_000);
  open.resolve();
  expect((await other).status).toBe(200);
  expect((await Promise.all(sent)).filter(({ status }) => status === 200)).toHaveLength(4);
  await bothWhole();
});
