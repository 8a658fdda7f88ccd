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

test('the end of a stream of Messages says what the whole answer says', async () => {
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
  ] as const)('%s %s is %i in the form of that API', async (method, url, status, type) => {
    const answer = await server.request(method, url, method === 'GET' ? undefined : {}, ANTHROPIC);
    expect(answer.statusCode).toBe(status);
    expect(answer.json<MessagesError>()).toMatchObject({
      type: 'error',
      error: { type },
      request_id: expect.any(String),
    });
    const other = await server.request(method, url, method === 'GET' ? undefined : {});
    expect(other.json<ErrorBody>()).not.toHaveProperty('request_id');
  });
});
