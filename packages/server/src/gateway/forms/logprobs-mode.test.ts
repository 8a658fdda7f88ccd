import { afterAll, beforeAll, expect, test } from 'vitest';

import type { ChatCompletion } from '@trainyard/protocol';

import { ScriptedInference } from '../../testing/scripted-inference.ts';
import { TestServer } from '../../testing/test-server.ts';

let server: TestServer;
beforeAll(async () => {
  server = await TestServer.startOn(new ScriptedInference(), {}, null, { logprobsMode: 'processed' });
  await server.makeModel('agent');
});
afterAll(() => server.close());

const MESSAGES = [{ role: 'user', content: 'hello' }];

test.each([
  ['/v1/chat/completions', { messages: MESSAGES }],
  ['/v1/completions', { prompt: 'a' }],
  ['/v1/messages', { messages: MESSAGES, max_tokens: 4 }],
  ['/v1/responses', { input: 'hello' }],
  ['/inference/v1/generate', { token_ids: [1, 2], sampling_params: { max_tokens: 4 } }],
])('%s follows the setting unless the request asks for the other mode, and keeps a record', async (path, body) => {
  const answer = await server.request('POST', path, { model: 'agent', ...body });
  expect(answer.statusCode, answer.body).toBe(200);
  expect(server.inference.lastRequest).toMatchObject({ logprobsMode: 'processed', tracesSampling: true });
  expect(answer.body).toContain('"record_id"');
});

test('a request may ask for either', async () => {
  for (const [mode, expected] of [
    ['raw_logprobs', 'raw'],
    ['processed_logprobs', 'processed'],
    [null, 'processed'],
  ] as const) {
    const answer = (await server.chat({ model: 'agent', logprobs_mode: mode })).json<ChatCompletion>();
    expect(server.inference.lastRequest.logprobsMode).toBe(expected);
    expect(answer.choices[0]).toHaveProperty('record_id');
  }
});
