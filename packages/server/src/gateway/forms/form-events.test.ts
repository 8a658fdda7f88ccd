import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

import type { ErrorBody, MessageEvent, MessagesError, ModelCard, ModelList, ResponseEvent } from '@trainyard/protocol';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';

import { failure, ScriptedInference } from '../../testing/scripted-inference.ts';
import { eventFault, operationOf } from '../../testing/documented-answers.ts';
import { readNamedEvents, TestServer } from '../../testing/test-server.ts';

/** Events and answers that only clients of Responses and Messages read. */

const HELLO = [{ role: 'user', content: 'Hello' }];
const ANTHROPIC = { 'anthropic-version': '2023-06-01' };

let server: TestServer;
const scripted = new ScriptedInference();
beforeAll(async () => {
  server = await TestServer.start();
  await server.addCheckpoint(await server.makeModel('agent'), 'b');
});
afterEach(() => {
  server.inference.script = scripted.script;
});
afterAll(() => server.close());

test('a stream of Responses that fails ends with response.failed, then error', async () => {
  server.inference.script = function* () {
    yield { kind: 'started', promptTokenIds: [1], cachedTokens: 0 };
    yield { kind: 'delta', index: 0, text: 'a', tokenIds: [9], logprobs: null };
    yield failure('engine.host_lost', 'the engine stopped');
  };
  const { body } = await server.request('POST', '/v1/responses', { input: 'Hello', stream: true });
  const events = readNamedEvents<ResponseEvent>(body);
  expect(events.map((event) => event.sequence_number)).toEqual(events.map((_, index) => index));
  const [failed, error] = events.slice(-2);
  const operation = operationOf('POST', '/v1/responses');
  for (const event of events) expect(operation && eventFault(operation, event)).toBeNull();
  expect(failed).toMatchObject({
    type: 'response.failed',
    response: {
      status: 'failed',
      error: { code: 'engine.host_lost', message: 'the engine stopped' },
      completed_at: null,
    },
  });
  expect(error).toMatchObject({ type: 'error', code: 'engine.host_lost', message: 'the engine stopped' });
  expect(body.match(/^event: .*/gm)?.slice(-2)).toEqual(['event: response.failed', 'event: error']);
});

test('the end of a Messages stream equals the whole answer', async () => {
  const { body } = await server.request('POST', '/v1/messages', { messages: HELLO, max_tokens: 9, stream: true });
  const end = readNamedEvents<MessageEvent>(body).find((event) => event.type === 'message_delta');
  expect(end).toMatchObject({ delta: { stop_sequence: null, stop_details: null, container: null } });
});

describe('for clients with the header anthropic-version', () => {
  test('the list of models and each of them have the members of that API too', async () => {
    const list = (await server.request('GET', '/v1/models', undefined, ANTHROPIC)).json<ModelList>();
    const names = list.data.map(({ id }) => id);
    expect(list).toMatchObject({ has_more: false, first_id: names[0], last_id: names.at(-1) });
    for (const { type, id, display_name: shown, created, created_at: at } of list.data)
      expect([type, shown, at]).toEqual(['model', id, new Date(created * 1000).toISOString()]);
    const card = (await server.request('GET', `/v1/models/${names[1]}`, undefined, ANTHROPIC)).json<ModelCard>();
    expect(card).toMatchObject({ type: 'model', object: 'model', display_name: card.id });
    expect(Object.keys((await server.request('GET', '/v1/models')).json<ModelList>())).toEqual(['object', 'data']);
  });

  test.each([
    ['GET', '/v1/messages', 405, 'invalid_request_error'],
    ['POST', '/v1/messages/batches', 404, 'not_found_error'],
    ['POST', '/v1/messages/none?beta=true', 404, 'not_found_error'],
    ['GET', '/v1/messages/count_tokens', 405, 'invalid_request_error'],
    ['GET', '/v1/models/none', 404, 'not_found_error'],
    ['POST', '/v1/models', 405, 'invalid_request_error'],
    ['DELETE', '/v1/models/none', 405, 'invalid_request_error'],
    ['POST', '/v1/complete', 404, 'not_found_error'],
    ['GET', '/v1/files?beta=true', 404, 'not_found_error'],
    ['GET', '/v1/skills?beta=true', 404, 'not_found_error'],
    ['POST', '/v1/v1/messages', 404, 'not_found_error'],
    ['GET', '/v1/models/%', 400, 'invalid_request_error'],
  ] as const)('%s %s is %i in the form of that API', async (method, url, status, type) => {
    const answer = await server.request(method, url, method === 'GET' ? undefined : {}, ANTHROPIC);
    expect(answer.statusCode).toBe(status);
    expect(answer.json<MessagesError>()).toMatchObject({
      type: 'error',
      error: { type },
      request_id: answer.headers['x-request-id'],
    });
    expect(answer.headers['request-id']).toBe(answer.headers['x-request-id']);
    const other = await server.request(method, url, method === 'GET' ? undefined : {});
    expect(other.json<ErrorBody>()).not.toHaveProperty('request_id');
  });

  const routes = [
    ['POST', '/v1/messages'],
    ['POST', '/v1/messages/count_tokens'],
    ['GET', '/v1/models'],
    ['GET', '/v1/models/tiny/base'],
  ] as const;
  const bodyOf = (method: string) => (method === 'GET' ? undefined : { messages: HELLO, max_tokens: 4 });
  const asAnthropic = (answer: Awaited<ReturnType<TestServer['request']>>) => {
    const { type, error } = answer.json<MessagesError>();
    return [answer.statusCode, type, error.type, answer.headers['request-id'] === answer.headers['x-request-id']];
  };

  test.each(routes)(
    '%s %s is refused in the form of that API without a key or with the wrong one',
    async (...route) => {
      const [method, url] = route;
      const ask = (headers: Record<string, string>) =>
        server.request(method, url, bodyOf(method), { ...ANTHROPIC, ...headers });
      const expected = [401, 'error', 'authentication_error', true];
      expect(asAnthropic(await ask({ authorization: '' }))).toEqual(expected);
      expect(asAnthropic(await ask({ authorization: 'Bearer wrong' }))).toEqual(expected);
      const admin = await server.makeKey('acme', ['training']);
      expect(asAnthropic(await ask({ authorization: `Bearer ${admin}` }))).toEqual([
        403,
        'error',
        'permission_error',
        true,
      ]);
    },
  );

  test('bodies that are too large, of the wrong type or no JSON are refused in the form of that API', async () => {
    const small = await TestServer.start({ chatBodyBytes: 1000 });
    const send = (body: string | object, headers: Record<string, string> = {}) =>
      small.request('POST', '/v1/messages', body, { ...ANTHROPIC, ...headers });
    const large = { messages: [{ role: 'user', content: 'x'.repeat(2000) }], max_tokens: 4 };
    expect(asAnthropic(await send(large))).toEqual([413, 'error', 'request_too_large', true]);
    expect(asAnthropic(await send('{', { 'content-type': 'application/json' }))).toEqual([
      400,
      'error',
      'invalid_request_error',
      true,
    ]);
    expect(asAnthropic(await send('x', { 'content-type': 'text/plain' }))[0]).toBe(415);
    await small.close();
  });

  test('a key over its limit and a full or failed engine are errors in the shape of that API', async () => {
    server.inference.script = function* () {
      yield failure('engine.overloaded', 'full');
    };
    const ask = () => server.request('POST', '/v1/messages', { messages: HELLO, max_tokens: 4 }, ANTHROPIC);
    expect(asAnthropic(await ask())).toEqual([429, 'error', 'rate_limit_error', true]);
    server.inference.script = function* () {
      yield failure('engine.host_lost', 'gone');
    };
    expect(asAnthropic(await ask())).toEqual([503, 'error', 'api_error', true]);
  });
});

test.each([
  [{}, 'error.code', 'server.unavailable'],
  [ANTHROPIC, 'error.type', 'api_error'],
] as const)('a request that comes while the service closes is refused as any other: %j', async (headers, at, value) => {
  const closing = await TestServer.start();
  const port = Number(new URL(await closing.app.listen({ port: 0, host: '127.0.0.1' })).port);
  const accepted = once(closing.app.server, 'connection') as Promise<[Socket]>;
  const socket = connect(port, '127.0.0.1');
  let received = '';
  socket.setEncoding('utf8').on('data', (text: string) => (received += text));
  // A connection with a started request is not closed.
  socket.write('GET /v1/models HTTP/1.1\r\nHost: localhost\r\n');
  const [connection] = await accepted;
  await expect.poll(() => connection.bytesRead).toBeGreaterThan(0);
  const closed = closing.close();
  await expect.poll(() => closing.app.server.listening).toBe(false);
  socket.write(
    `${Object.entries(headers)
      .map(([name, text]) => `${name}: ${text}\r\n`)
      .join('')}\r\n`,
  );
  await Promise.all([once(socket, 'close'), closed]);
  const [head = '', body = ''] = received.split('\r\n\r\n');
  expect(head).toMatch(/^HTTP\/1.1 503 /);
  expect(head).toMatch(/retry-after: 1/i);
  expect(head).toMatch(/connection: close/i);
  expect(JSON.parse(body)).toHaveProperty(at, value);
});
