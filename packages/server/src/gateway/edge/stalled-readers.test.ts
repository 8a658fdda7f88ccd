/** Clients that do not read their answers, over real sockets, in every form. */
import { connect, type AddressInfo, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';

import { replies, ScriptedInference } from '../../testing/scripted-inference.ts';
import { TestServer } from '../../testing/test-server.ts';

const TIMEOUT_MS = 800;
/** 24 MB: more than the kernel's buffers of a loopback connection hold. */
const STEPS = Array.from({ length: 240 }, () => ({ ids: [5], text: 'x'.repeat(100_000) }));
/** The same for the form that has only ids. */
const ID_STEPS = STEPS.map(() => ({ ids: Array.from({ length: 20_000 }, () => 999), text: '' }));

let server: TestServer;
const scripted = new ScriptedInference();
const sockets: Socket[] = [];
beforeAll(async () => {
  const model = { id: 'tiny/base', contextLength: 40_000, vocabSize: 1000 };
  server = await TestServer.startOn(new ScriptedInference(model), { readerTimeoutMs: TIMEOUT_MS });
  await server.app.listen({ port: 0, host: '127.0.0.1' });
});
afterEach(() => {
  server.inference.script = scripted.script;
  for (const socket of sockets.splice(0)) socket.destroy();
});
afterAll(() => server.close());

/** Sends a request and reads nothing of the answer. */
function ask(path: string, fields: object): Socket {
  const socket = connect((server.app.server.address() as AddressInfo).port, '127.0.0.1');
  const body = JSON.stringify(fields);
  socket.pause();
  socket.on('error', () => undefined);
  socket.write(
    `POST ${path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${server.key}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
  );
  sockets.push(socket);
  return socket;
}

const numEnded = (): number => server.logged.filter((line) => line.includes('read nothing of the response')).length;

async function sampledTokens(): Promise<number> {
  return (await server.store.usage.sum({})).reduce((sum, { completionTokens }) => sum + completionTokens, 0);
}

const messages = [{ role: 'user', content: 'x' }];
const FORMS: Record<string, readonly [path: string, fields: object]> = {
  chat: ['/v1/chat/completions', { messages }],
  completions: ['/v1/completions', { prompt: 'x', max_tokens: 300 }],
  responses: ['/v1/responses', { input: 'x' }],
  messages: ['/v1/messages', { messages, max_tokens: 300 }],
  generate: ['/inference/v1/generate', { token_ids: [1], sampling_params: { max_tokens: 300 } }],
};

describe('an answer that its client does not read is ended, and its tokens are counted', () => {
  test.each(
    Object.entries(FORMS).flatMap(([form, [path, fields]]) => [
      [`${form}, a stream`, path, { ...fields, model: 'tiny/base', stream: true }] as const,
      [`${form}, whole`, path, { ...fields, model: 'tiny/base', stream: false }] as const,
    ]),
  )('%s', async (_name, path, fields) => {
    server.inference.script = (request) => replies(request, path.includes('generate') ? ID_STEPS : STEPS);
    const [before, tokensBefore, endedBefore] = [numEnded(), await sampledTokens(), server.inference.numEnded];
    const socket = ask(path, fields);
    await expect.poll(numEnded, { interval: 50 }).toBe(before + 1);
    await expect.poll(() => server.inference.numEnded).toBe(endedBefore + 1);
    const sampled = (await sampledTokens()) - tokensBefore;
    console.log(`${sampled} tokens counted`);
    expect(sampled).toBeGreaterThan(10);
    const closed = new Promise((resolve) => socket.once('close', resolve));
    socket.resume();
    await closed;
  });
});

test('a client that reads slowly keeps its answer', async () => {
  server.inference.script = (request) => replies(request, STEPS.slice(0, 80));
  const before = numEnded();
  const socket = ask('/v1/chat/completions', { messages, stream: true });
  let text = '';
  const ended = new Promise<void>((resolve) => {
    socket.on('data', (data) => {
      text = (text + data.toString('latin1')).slice(-100);
      if (text.includes('[DONE]')) resolve();
      socket.pause();
      setTimeout(() => socket.resume(), 5);
    });
  });
  socket.resume();
  await ended;
  expect(numEnded()).toBe(before);
}, 60_000);

test('a client that waits for a slow source is not ended, and one that only sends is', async () => {
  const before = numEnded();
  server.inference.script = async function* (request) {
    const [started, ...events] = [...replies(request, STEPS.slice(0, 3))];
    yield started!;
    for (const event of events) {
      await sleep(TIMEOUT_MS);
      yield event;
    }
  };
  const waiting = ask('/v1/chat/completions', { messages, stream: true });
  let text = '';
  waiting.on('data', (data) => (text += data.toString('latin1')));
  waiting.resume();
  await expect.poll(() => text).toContain('[DONE]');
  expect(numEnded()).toBe(before);

  server.inference.script = (request) => replies(request, STEPS);
  const sending = ask('/v1/chat/completions', { messages, stream: true });
  sending.write('GET /v1/health HTTP/1.1\r\nhost: localhost\r\nx-header: ');
  const timer = setInterval(() => sending.write('x'), TIMEOUT_MS / 10);
  await expect.poll(numEnded, { interval: 50 }).toBe(before + 1);
  clearInterval(timer);
}, 60_000);
