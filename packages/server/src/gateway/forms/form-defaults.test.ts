import type { CountTokens, ErrorBody, InputTokens, Message, Response } from '@trainyard/protocol';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { ScriptedEngineInference } from '../../testing/scripted-engine.ts';
import { TestServer } from '../../testing/test-server.ts';

/** Settings without effect: the answer and the count equal those of the request without them. */

const HELLO = [{ role: 'user', content: 'Hello' }];
const FUNCTION = { type: 'function', name: 'look', parameters: { type: 'object', properties: {} } };
const TOOL = { name: 'look', input_schema: FUNCTION.parameters };

let inference: ScriptedEngineInference;
let server: TestServer<ScriptedEngineInference>;
beforeAll(async () => {
  inference = await ScriptedEngineInference.open({ template: 'thinking', contextLength: 1024 });
  inference.model.setReply('Hello to you.');
  server = await TestServer.startOn(inference);
});
afterAll(async () => {
  await server.close();
  inference.close();
});

const responses = (fields: object) => server.request('POST', '/v1/responses', { input: 'Hello', ...fields });
const itemCount = (fields: object) =>
  server.request('POST', '/v1/responses/input_tokens', { input: 'Hello', ...fields });
const messages = (fields: object) =>
  server.request('POST', '/v1/messages', { messages: HELLO, max_tokens: 40, ...fields });
const turnCount = (fields: object) =>
  server.request('POST', '/v1/messages/count_tokens', { messages: HELLO, ...fields });

async function json<Body>(answer: ReturnType<typeof responses>): Promise<Body> {
  const { statusCode, body } = await answer;
  if (statusCode !== 200) throw new Error(body);
  return JSON.parse(body) as Body;
}

const textOf = ({ output }: Response) =>
  output.flatMap((item) => (item.type === 'message' ? item.content.map(({ text }) => text) : []));

describe('a choice among no tools that is the default of its form', () => {
  test.each([{}, { tools: [] }, { tools: null }])(
    'is taken by Responses with %j, whole and in a stream',
    async (tools) => {
      const plain = await json<Response>(responses({}));
      const asked = { ...tools, tool_choice: 'auto' };
      const answer = await json<Response>(responses(asked));
      expect([textOf(answer), answer.usage?.input_tokens]).toEqual([textOf(plain), plain.usage?.input_tokens]);
      expect((await responses({ ...asked, stream: true })).body).toContain('event: response.completed');
      expect(await json<InputTokens>(itemCount(asked))).toEqual(await json<InputTokens>(itemCount({})));
    },
  );

  test.each([{}, { tools: [] }, { tools: null }])(
    'is taken by Messages with %j, whole and in a stream',
    async (tools) => {
      const asked = { ...tools, tool_choice: { type: 'auto', disable_parallel_tool_use: true } };
      const [answer, plain] = [await json<Message>(messages(asked)), await json<Message>(messages({}))];
      expect(answer.content).toEqual(plain.content);
      expect((await messages({ ...asked, stream: true })).body).toContain('event: message_stop');
      expect(await json<CountTokens>(turnCount(asked))).toEqual(await json<CountTokens>(turnCount({})));
    },
  );

  test('does not hide one that asks for a call', async () => {
    for (const answer of [
      await responses({ tools: [], tool_choice: 'required' }),
      await responses({ tool_choice: { type: 'function', name: 'look' } }),
      await itemCount({ tools: [], tool_choice: 'required' }),
      await messages({ tools: [], tool_choice: { type: 'any' } }),
      await turnCount({ tool_choice: { type: 'tool', name: 'look' } }),
    ])
      expect([answer.statusCode, answer.json<ErrorBody>().error.code]).toEqual([400, 'request.conflict']);
    await json(responses({ tools: [FUNCTION], tool_choice: 'auto' }));
    expect(inference.lastRequest.reply?.toolChoice).toBe('auto');
    await json(messages({ tools: [TOOL], tool_choice: { type: 'auto' } }));
    expect(inference.lastRequest.reply?.toolChoice).toBe('auto');
  });
});

test.each([{}, { include_obfuscation: false }, { include_obfuscation: null }])(
  'Responses take the stream options %j without a stream',
  async (options) => {
    expect(textOf(await json<Response>(responses({ stream_options: options })))).toEqual(['Hello to you.']);
  },
);

describe('settings that ask for nothing', () => {
  test.each([
    { reasoning: { context: 'auto', mode: 'standard' } },
    { reasoning: { context: null, mode: null } },
    { include: ['file_search_call.results', 'web_search_call.action.sources', 'message.input_image.image_url'] },
    ...['auto', 'default', 'flex', 'priority', 'scale'].map((service_tier) => ({ service_tier })),
    { max_tool_calls: 3 },
  ])('are taken by Responses: %j', async (fields) => {
    expect(textOf(await json<Response>(responses(fields)))).toEqual(['Hello to you.']);
    expect(inference.lastRequest.n).toBe(1);
  });

  test.each(['auto', 'standard_only', 'priority'])('are taken by Messages: service_tier %s', async (tier) => {
    expect((await json<Message>(messages({ service_tier: tier }))).usage.service_tier).toBe('standard');
  });

  test('others are refused by name', async () => {
    for (const [fields, param] of [
      [{ reasoning: { mode: 'pro' } }, 'reasoning.mode'],
      [{ reasoning: { other: 1 } }, 'reasoning.other'],
      [{ include: ['other'] }, 'include'],
    ] as const)
      expect((await responses(fields)).json<ErrorBody>().error.param).toBe(param);
  });
});

test('output_format is the older name of output_config.format', async () => {
  const format = {
    type: 'json_schema',
    schema: { type: 'object', properties: { a: { const: 1 } }, required: ['a'], additionalProperties: false },
  };
  inference.model.setReply('{"a": 1}');
  const { content } = await json<Message>(messages({ output_format: format, temperature: 0 }));
  expect(content.map((block) => (block.type === 'text' ? (JSON.parse(block.text) as unknown) : block))).toEqual([
    { a: 1 },
  ]);
  await json<CountTokens>(turnCount({ output_format: format }));
  const both = await messages({ output_format: format, output_config: { format } });
  expect([both.statusCode, both.json<ErrorBody>().error.param]).toEqual([400, 'output_format']);
});
