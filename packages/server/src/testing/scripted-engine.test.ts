import { afterAll, beforeAll, expect, test } from 'vitest';
import type { ChatCompletion } from '@trainyard/protocol';

import { ScriptedEngineInference } from './scripted-engine.ts';
import { readEvents, TestServer } from './test-server.ts';

let server: TestServer<ScriptedEngineInference>;
beforeAll(async () => {
  server = await TestServer.startOn(await ScriptedEngineInference.open());
});
afterAll(async () => {
  await server.close();
  server.inference.close();
});

test('the engine answers through HTTP with the text that was asked for, from its own prompt', async () => {
  server.inference.model.setReply((prompt) => `You said ${prompt.length} characters`);
  const body = (await server.chat({ return_token_ids: true })).json<ChatCompletion>();
  const prompt = '<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n';
  expect(body.choices[0]).toMatchObject({
    message: { content: `You said ${prompt.length} characters` },
    finish_reason: 'stop',
  });
  expect(server.inference.model.tokenizer.decode(body.prompt_token_ids!)).toBe(prompt);
  expect(body.usage.completion_tokens).toBe(`You said ${prompt.length} characters`.length + 1);
});

test('a conversation continues after its first answer, and streams', async () => {
  server.inference.model.setReply((prompt) => (prompt.includes('one') ? 'two' : 'one'));
  const first = { role: 'user', content: 'count' };
  const answer = (await server.chat({ messages: [first] })).json<ChatCompletion>();
  expect(answer.choices[0]!.message.content).toBe('one');
  const messages = [first, answer.choices[0]!.message, { role: 'user', content: 'and' }];
  const { events, isDone } = readEvents((await server.chat({ messages, stream: true })).body);
  expect(events.map((event) => event.choices?.[0]?.delta.content ?? '').join('')).toBe('two');
  expect(isDone).toBe(true);
});

test('constraints hold a model without preferences', async () => {
  server.inference.model.setModel((_context, row) => void row.fill(0));
  const schema = { type: 'object', properties: { ok: { type: 'boolean' } }, required: ['ok'] };
  const body = (
    await server.chat({ response_format: { type: 'json_schema', json_schema: { name: 'x', schema } }, seed: 7 })
  ).json<ChatCompletion>();
  expect(JSON.parse(body.choices[0]!.message.content!)).toEqual({ ok: expect.any(Boolean) });
});

test("text and tokens are the tokenizer's", async () => {
  const { tokens } = (await server.request('POST', '/tokenize', { prompt: 'hé' })).json<{ tokens: number[] }>();
  expect(tokens).toEqual([256, ...Buffer.from('hé')]);
  const { prompt } = (await server.request('POST', '/detokenize', { tokens: tokens.slice(1) })).json<{
    prompt: string;
  }>();
  expect(prompt).toBe('hé');
});
