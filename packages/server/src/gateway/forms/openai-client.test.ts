import OpenAI from 'openai';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { failure, replies, type ScriptedEnd, type ScriptedStep } from '../../testing/scripted-inference.ts';
import { TestServer } from '../../testing/test-server.ts';

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

test('the client lists models and distinguishes errors', async () => {
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
    OpenAI.BadRequestError,
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

const ID = 'chatcmpl-tool-0123456789abcdef';
const WEATHER_CALL = { id: ID, name: 'weather', arguments: '{"city": "Zürich"}' };
const TOOLS = [
  {
    type: 'function' as const,
    function: { name: 'weather', parameters: { type: 'object', properties: { city: { type: 'string' } } } },
  },
];
/** A thought, a text, a call in three chunks. */
const CALL_STEPS: ScriptedStep[] = [
  { ids: [10], text: '<think>hm</think>', reply: { reasoning: 'hm' } },
  { ids: [11], text: 'I look.', reply: { content: 'I look.' } },
  { ids: [12], text: '<tool_call>' },
  { ids: [13], text: '…', reply: { toolCalls: [{ index: 0, id: ID, name: 'weather', arguments: '' }] } },
  { ids: [14], text: '…', reply: { toolCalls: [{ index: 0, arguments: '{"city": ' }] } },
  { ids: [15], text: '…', reply: { toolCalls: [{ index: 0, arguments: '"Zürich"}' }] } },
];
const CALL_END: ScriptedEnd = {
  parsed: { reasoning: 'hm', content: 'I look.', toolCalls: [WEATHER_CALL] },
  reasoningTokens: 1,
};

test('the unmodified client reads tool calls', async () => {
  server.inference.script = (request) => replies(request, CALL_STEPS, CALL_END);
  const answer = await client.chat.completions.create({ model: 'tiny/base', messages, tools: TOOLS });
  const [choice] = answer.choices;
  expect(choice?.finish_reason).toBe('tool_calls');
  expect(choice?.message.tool_calls).toEqual([
    { id: ID, type: 'function', function: { name: 'weather', arguments: WEATHER_CALL.arguments } },
  ]);
  expect(choice?.message.content).toBe('I look.');
  expect(choice?.message).toMatchObject({ reasoning: 'hm' });
  expect(answer.usage?.completion_tokens_details?.reasoning_tokens).toBe(1);
});

test('its stream helper puts the pieces of text and calls together', async () => {
  server.inference.script = (request) => replies(request, CALL_STEPS, CALL_END);
  const stream = client.chat.completions.stream({
    model: 'tiny/base',
    messages,
    tools: TOOLS,
    stream_options: { include_usage: true },
  });
  const told: string[] = [];
  stream.on('tool_calls.function.arguments.done', (call) => told.push(`${call.name}(${call.arguments})`));
  const answer = await stream.finalChatCompletion();
  expect(told).toEqual(['weather({"city": "Zürich"})']);
  expect(answer.choices[0]).toMatchObject({
    finish_reason: 'tool_calls',
    message: {
      role: 'assistant',
      content: 'I look.',
      tool_calls: [{ id: ID, type: 'function', function: { name: 'weather', arguments: WEATHER_CALL.arguments } }],
    },
  });
  expect(answer.usage).toMatchObject({ completion_tokens: 7, completion_tokens_details: { reasoning_tokens: 1 } });
});

test('its helper that runs tools calls them and sends their results back', async () => {
  for (const stream of [false, true]) {
    server.inference.script = (request) => {
      const isAnswered = request.prompt.kind === 'chat' && request.prompt.messages.at(-1)?.role === 'tool';
      return isAnswered
        ? replies(request, [{ ids: [20], text: 'sunny', reply: { content: 'sunny' } }], {
            parsed: { content: 'sunny' },
          })
        : replies(request, CALL_STEPS, CALL_END);
    };
    const asked: unknown[] = [];
    const runner = client.chat.completions.runTools({
      model: 'tiny/base',
      messages,
      stream,
      tools: [
        {
          type: 'function',
          function: {
            name: 'weather',
            description: 'tells the weather',
            parse: JSON.parse,
            parameters: { type: 'object', properties: { city: { type: 'string' } } },
            function: (input: unknown) => {
              asked.push(input);
              return 'sun';
            },
          },
        },
      ],
    } as Parameters<typeof client.chat.completions.runTools>[0]);
    expect(await runner.finalContent()).toBe('sunny');
    expect(asked).toEqual([{ city: 'Zürich' }]);
    const { prompt } = server.inference.lastRequest;
    expect(prompt.kind === 'chat' && prompt.messages.at(-1)).toMatchObject({
      role: 'tool',
      tool_call_id: ID,
      content: 'sun',
    });
  }
});
