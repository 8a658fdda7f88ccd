import OpenAI from 'openai';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { failure } from '../testing/scripted-inference.ts';
import { TestServer } from '../testing/test-server.ts';

let server: TestServer;
let client: OpenAI;
beforeAll(async () => {
  server = await TestServer.start();
  await server.addCheckpoint(await server.makeModel('agent'), 'c');
  const url = await server.app.listen({ port: 0, host: '127.0.0.1' });
  client = new OpenAI({ baseURL: `${url}/v1`, apiKey: server.key, maxRetries: 0 });
});
afterAll(() => server.close());

const messages = [{ role: 'user' as const, content: 'hello' }];

test('the unmodified client reads an answer of a trained model', async () => {
  const answer = await client.chat.completions.create({ model: 'wandb-artifact:///acme/demo/agent', messages, n: 2 });
  expect(answer.choices.map((choice) => choice.message.content)).toEqual(['hi', 'hi']);
  expect(answer.choices[0]?.logprobs?.content?.map((entry) => entry.token)).toEqual([
    'token_id:5',
    'token_id:6',
    'token_id:2',
  ]);
  expect([answer.model, answer.usage?.total_tokens]).toEqual(['acme/demo/agent:step1', 9]);
});

test('the unmodified client reads a stream, with usage', async () => {
  const chunks = await Array.fromAsync(
    await client.chat.completions.create({
      model: 'tiny/base',
      messages,
      stream: true,
      stream_options: { include_usage: true },
    }),
  );
  expect(chunks.map((chunk) => chunk.choices[0]?.delta.content ?? '').join('')).toBe('hi');
  expect(chunks.at(-1)?.usage?.completion_tokens).toBe(3);
});

test('the client lists models and tells errors apart', async () => {
  const { data } = await client.models.list();
  expect(data.map((model) => model.id)).toEqual([
    'tiny/base',
    'acme/demo/agent',
    'acme/demo/agent:step0',
    'acme/demo/agent:step1',
  ]);
  await expect(client.chat.completions.create({ model: 'nobody', messages })).rejects.toMatchObject({
    status: 404,
    code: 'request.unknown_model',
    param: 'model',
  });
  await expect(client.chat.completions.create({ model: 'tiny/base', messages, top_p: 2 })).rejects.toBeInstanceOf(
    OpenAI.UnprocessableEntityError,
  );
  await expect(client.withOptions({ apiKey: 'wrong' }).models.list()).rejects.toBeInstanceOf(
    OpenAI.AuthenticationError,
  );
});

test('an error inside a stream reaches the caller of the client', async () => {
  server.inference.script = function* () {
    yield { kind: 'started', promptTokenIds: [1], cachedTokens: 0 };
    yield { kind: 'delta', index: 0, text: 'a', tokenIds: [9], logprobs: null };
    yield failure('engine.host_lost', 'the engine stopped');
  };
  const stream = await client.chat.completions.create({ model: 'tiny/base', messages, stream: true });
  await expect(Array.fromAsync(stream)).rejects.toThrow('the engine stopped');
});
