import { afterAll, beforeAll, expect, test } from 'vitest';
import type { ChatCompletion, ChatCompletionChunk } from '@trainyard/protocol';

import { replies, type ScriptedEnd, type ScriptedStep } from '../../../testing/scripted-inference.ts';
import { readEvents, TestServer } from '../../../testing/test-server.ts';

/**
 * Each request field that decides the form of a reply, from the body to the answer. Tests in `wire/` cover
 * all its cases.
 */

const CALL = { id: 'chatcmpl-tool-0123456789abcdef', name: 'f', arguments: '{}' };
const STEPS: ScriptedStep[] = [
  { ids: [5], text: 'hm</think>', reply: { reasoning: 'hm' } },
  { ids: [6], text: '<tool_call>' },
  { ids: [7], text: '…', reply: { toolCalls: [{ index: 0, ...CALL }] } },
];
const END: ScriptedEnd = { parsed: { reasoning: 'hm', toolCalls: [CALL] }, reasoningTokens: 1 };
const TOOLS = [{ type: 'function', function: { name: 'f' } }];
const NAMED = { type: 'function', function: { name: 'f' } };

let server: TestServer;
beforeAll(async () => {
  server = await TestServer.start();
});
afterAll(() => server.close());

async function answer(fields: Record<string, unknown>, steps = STEPS, end = END): Promise<ChatCompletion> {
  server.inference.script = (request) => replies(request, steps, end);
  const response = await server.chat(fields);
  if (response.statusCode !== 200) throw new Error(response.body);
  return response.json<ChatCompletion>();
}

async function outputs(
  fields: Record<string, unknown>,
  steps = STEPS,
  end = END,
): Promise<ChatCompletionChunk['choices']> {
  server.inference.script = (request) => replies(request, steps, end);
  const { events } = readEvents((await server.chat({ ...fields, stream: true })).body);
  return events.flatMap((event) => event.choices ?? []);
}

test.each([
  [{ tools: TOOLS }, 'tool_calls'],
  [{ tools: TOOLS, tool_choice: null }, 'tool_calls'],
  [{ tools: TOOLS, tool_choice: 'auto' }, 'tool_calls'],
  [{ tools: TOOLS, tool_choice: 'required' }, 'tool_calls'],
  [{ tools: TOOLS, tool_choice: NAMED }, 'stop'],
])('%j: the answer has the calls, and the choice ends with %s', async (fields, expected) => {
  const [choice] = (await answer(fields)).choices;
  expect(choice?.message.tool_calls?.map((call) => call.function.name)).toEqual(['f']);
  expect(choice?.finish_reason).toBe(expected);
  expect((await outputs(fields)).at(-1)?.finish_reason).toBe(expected);
});

test('tool_choice decides how the chunks of calls start', async () => {
  const begun: ScriptedStep[] = [{ ids: [7], text: '…', reply: { toolCalls: [{ index: 0, ...CALL, arguments: '' }] } }];
  const first = async (choice: unknown) =>
    (await outputs({ tools: TOOLS, tool_choice: choice }, begun)).flatMap(({ delta }) => delta.tool_calls ?? [])[0]
      ?.function;
  expect(await first('auto')).toEqual({ name: 'f' });
  expect(await first('required')).toEqual({ name: 'f', arguments: '' });
  expect(await first(NAMED)).toEqual({ name: 'f', arguments: '' });
});

test('include_reasoning: false hides the reasoning and the tokens', async () => {
  const fields = { tools: TOOLS, logprobs: true, return_token_ids: true };
  const [shown] = (await answer(fields)).choices;
  expect([shown?.message.reasoning, shown?.token_ids, shown?.logprobs?.content.length]).toEqual([
    'hm',
    [5, 6, 7, 2],
    4,
  ]);
  const [hidden] = (await answer({ ...fields, include_reasoning: false })).choices;
  expect([hidden?.message.reasoning, hidden?.token_ids, hidden?.logprobs]).toEqual([null, null, null]);
  const streamed = await outputs({ ...fields, include_reasoning: false });
  expect(streamed.map((output) => [output.delta.reasoning, output.token_ids ?? null, output.logprobs])).toEqual(
    streamed.map(() => [undefined, null, null]),
  );
  expect(streamed.some((output) => output.delta.tool_calls)).toBe(true);
});

const OPEN_END = {
  messages: [
    { role: 'user', content: 'hello' },
    { role: 'critic', content: ['one', { type: 'text', text: 'two' }] },
  ],
  add_generation_prompt: false,
  continue_final_message: true,
};
const HI: ScriptedStep[] = [{ ids: [5, 6], text: ' hi' }];

test('echo puts the last message, its parts a line each, in front of replies in the same role', async () => {
  const [choice] = (await answer({ ...OPEN_END, echo: true }, HI, {})).choices;
  expect(choice?.message).toMatchObject({ role: 'critic', content: 'one\ntwo hi' });
  const [silent] = (await answer(OPEN_END, HI, {})).choices;
  expect(silent?.message).toMatchObject({ role: 'critic', content: ' hi' });
  // The last message is the user's, so the reply is the assistant's.
  const [other] = (await answer({ echo: true }, HI, {})).choices;
  expect(other?.message).toMatchObject({ role: 'assistant', content: ' hi' });
  const deltas = (await outputs({ ...OPEN_END, echo: true, n: 2 }, HI, {})).map((output) => [
    output.index,
    output.delta,
  ]);
  expect(deltas).toEqual([
    [0, { role: 'critic', content: '' }],
    [1, { role: 'critic', content: '' }],
    [0, { content: 'one\ntwo' }],
    [1, { content: 'one\ntwo' }],
    [0, { content: ' hi' }],
    [1, { content: ' hi' }],
    [0, { content: '' }],
    [1, { content: '' }],
  ]);
});

test('prompt_logprobs, or echo in its place, asks for those of the prompt; a stream does not', async () => {
  const asked = async (fields: Record<string, unknown>) => {
    await server.chat(fields);
    return server.inference.lastRequest.promptLogprobs;
  };
  expect(await asked({ prompt_logprobs: 2 })).toBe(2);
  expect(await asked({ echo: true })).toBe(0);
  expect(await asked({ echo: true, logprobs: true, top_logprobs: 3 })).toBe(3);
  expect(await asked({})).toBeNull();
  expect(await asked({ prompt_logprobs: 0, stream: true })).toBeNull();
});

test('return_prompt_text answers with the prompt’s ids as text', async () => {
  expect((await answer({ return_prompt_text: true })).prompt_text).toBe('\u0001\u0002\u0003');
  expect((await answer({})).prompt_text).toBeNull();
  const { body } = await server.chat({ return_prompt_text: true, stream: true });
  expect(readEvents(body).events.map((event) => event.prompt_text)[0]).toBe('\u0001\u0002\u0003');
});

test('stream_interval makes fewer chunks', async () => {
  const steps = Array.from({ length: 6 }, (_, i) => ({ ids: [10 + i], text: `${i}` }));
  const contents = async (fields: Record<string, unknown>) =>
    (await outputs(fields, steps, {})).map((output) => output.delta.content);
  expect(await contents({ stream_interval: 4 })).toEqual(['', '0123', '45']);
  expect(await contents({})).toEqual(['', '0', '1', '2', '3', '4', '5', '']);
});
