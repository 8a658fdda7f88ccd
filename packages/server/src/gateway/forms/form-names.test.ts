/** One refusal, with the field names of every form of request. */
import { naming } from '@trainyard/protocol/fields';
import type { EngineFailure } from '@trainyard/backend';
import type { EngineEvent } from '@trainyard/generation';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';

import { replies, ScriptedInference } from '../../testing/scripted-inference.ts';
import { TestServer } from '../../testing/test-server.ts';

const inference = new ScriptedInference();
let server: TestServer<ScriptedInference>;
beforeAll(async () => {
  server = await TestServer.startOn(inference);
});
beforeEach(() => {
  inference.script = (request) => replies(request, [{ ids: [5, 6], text: 'hi' }]);
});
afterAll(() => server.close());

const USER = [{ role: 'user', content: 'x' }];
const FORMS = {
  chat: { url: '/v1/chat/completions', body: { messages: USER } },
  completion: { url: '/v1/completions', body: { prompt: [5] } },
  responses: { url: '/v1/responses', body: { input: 'x' } },
  messages: { url: '/v1/messages', body: { messages: USER, max_tokens: 4 } },
  tokens: { url: '/inference/v1/generate', body: { token_ids: [5], sampling_params: {} } },
} as const;
type Form = keyof typeof FORMS;

interface Told {
  message: string;
  param: string | null;
}

async function refusal(form: Form, fields: object): Promise<Told & { detail: unknown }> {
  const { url, body } = FORMS[form];
  const response = await server.request('POST', url, { ...body, ...fields });
  expect(response.statusCode, response.body).toBe(400);
  const { detail, error } = response.json<{ detail: unknown; error: Told }>();
  return { detail, message: error.message, param: error.param };
}

const failed = (text: EngineFailure['text'], param: string): EngineEvent => ({
  kind: 'failed',
  code: 'engine.invalid_request',
  message: (text ?? []).map((part) => (typeof part === 'string' ? part : part.field)).join(''),
  param,
  ...(text === undefined ? {} : { text }),
});

/** An engine's refusal: two of its parameters, and a word that only looks like one. */
const STOP = failed(
  naming`${{ field: 'stop' }} must be shorter than ${{ field: 'maxTokens' }}, got ${'maxTokens `stop`'}`,
  'stop',
);

/** Names of the two parameters in each form. */
const NAMES: readonly [Form, stop: string, maxTokens: string][] = [
  ['chat', 'stop', 'max_tokens'],
  ['completion', 'stop', 'max_tokens'],
  ['responses', 'stop', 'max_output_tokens'],
  ['messages', 'stop_sequences', 'max_tokens'],
  ['tokens', 'sampling_params.stop', 'sampling_params.max_tokens'],
];

describe('refusals of the engine', () => {
  test.each(NAMES)('before the first output of %s', async (form, stop, maxTokens) => {
    inference.script = () => [STOP];
    expect(await refusal(form, {})).toEqual({
      param: stop,
      message: `${stop} must be shorter than ${maxTokens}, got maxTokens \`stop\``,
      detail: [
        {
          loc: ['body', ...stop.split('.')],
          msg: `${stop} must be shorter than ${maxTokens}, got maxTokens \`stop\``,
          type: 'value_error',
        },
      ],
    });
  });

  test.each(NAMES)('in the middle of a stream of %s', async (form, stop, maxTokens) => {
    inference.script = (request) => [
      { kind: 'started', promptTokenIds: [1], cachedTokens: 0 },
      ...Array.from(replies(request, [{ ids: [5], text: 'h' }])).filter(({ kind }) => kind === 'delta'),
      STOP,
    ];
    const { url, body } = FORMS[form];
    const response = await server.request('POST', url, { ...body, stream: true });
    expect(response.statusCode).toBe(200);
    const events = [...response.body.matchAll(/^data: (\{.*)$/gm)].map((match) => JSON.parse(match[1]!) as object);
    const told = events.map((event) => ('error' in event ? event.error : event) as Partial<Told>);
    expect(told.find(({ param }) => typeof param === 'string')).toMatchObject({
      param: stop,
      message: `${stop} must be shorter than ${maxTokens}, got maxTokens \`stop\``,
    });
  });

  test.each<[Form, string]>([
    ['chat', 'messages'],
    ['completion', 'prompt'],
    ['responses', 'input'],
    ['messages', 'messages'],
    ['tokens', 'token_ids'],
  ])('of the prompt of %s', async (form, param) => {
    inference.script = () => [failed(undefined, 'prompt')];
    expect((await refusal(form, {})).param).toBe(param);
  });
});

describe('refusals of the API', () => {
  test('use the field names of each API', async () => {
    const over = (name: string) => `\`${name}\` must be at most the model's context of 512 tokens, got 600`;
    const of = async (form: Form, fields: object) => (await refusal(form, fields)).message;
    expect(await of('chat', { max_tokens: 600 })).toBe(over('max_tokens'));
    expect(await of('chat', { max_completion_tokens: 600 })).toBe(over('max_completion_tokens'));
    expect(await of('completion', { max_tokens: 600 })).toBe(over('max_tokens'));
    expect(await of('responses', { max_output_tokens: 600 })).toBe(over('max_output_tokens'));
    expect(await of('messages', { max_tokens: 600 })).toBe(over('max_tokens'));
    expect(await of('tokens', { sampling_params: { max_tokens: 600 } })).toBe(over('sampling_params.max_tokens'));
  });

  test('names every field that it speaks of', async () => {
    const { message } = await refusal('tokens', { sampling_params: { temperature: 0, n: 2 } });
    expect(message).toBe(
      '`sampling_params.n` must be 1 with `sampling_params.temperature` 0 (all choices would be equal), got 2',
    );
    const format = { type: 'json_schema', name: 'x' };
    expect((await refusal('responses', { text: { format } })).message).toBe(
      '`text` of type json_schema must come with `text.format.schema`',
    );
  });

  test('keep names chosen by the client, also if a field has the same name', async () => {
    const tools = [{ name: 'f', input_schema: {} }];
    const choice = { type: 'tool', name: 'stop' };
    expect(await refusal('messages', { tools, tool_choice: choice })).toMatchObject({
      param: 'tool_choice.name',
      message: '`tool_choice` has the function `stop`, which is not in `tools`',
    });
    expect((await refusal('messages', { stop: 'x' })).message).toMatch(/^`stop` is not supported/);
    expect((await refusal('responses', { messages: USER })).message).toMatch(/^`messages` is not supported/);
  });

  const long = 'x'.repeat(500_000);
  const part = { role: 'user', content: [{ type: long }] };
  const [named, own] = [
    { type: 'function', function: { name: 'f' } },
    { name: 'f', input_schema: {} },
  ];
  test.each<[Form, string, object]>([
    ['chat', 'tool_choice.function.name', { tools: [named], tool_choice: { ...named, function: { name: long } } }],
    [
      'responses',
      'tool_choice.name',
      { tools: [{ type: 'function', name: 'f' }], tool_choice: { type: 'function', name: long } },
    ],
    ['responses', 'include', { include: [long] }],
    ['responses', 'input.0.type', { input: [{ type: long }] }],
    ['responses', 'input.0.content.0.type', { input: [part] }],
    ['responses', 'tools.0.type', { tools: [{ type: long }] }],
    ['responses', 'xxx', { [long]: 1 }],
    ['messages', 'messages.0.content.0.type', { messages: [part] }],
    ['messages', 'tools.0.type', { tools: [{ ...own, type: long }] }],
    ['messages', 'tool_choice.name', { tools: [own], tool_choice: { type: 'tool', name: long } }],
    ['messages', 'xxx', { [long]: 1 }],
    ['messages', 'tools.0.xxx', { tools: [{ ...own, [long]: 1 }] }],
  ])('of %s repeats no long text: %s', async (form, param, fields) => {
    const error = await refusal(form, fields);
    expect(error.param?.slice(0, 100)).toMatch(new RegExp(`^${param.replaceAll('.', '\\.')}`));
    expect(JSON.stringify(error).length).toBeLessThan(6000);
  });

  test('has its places in the names of the form, too', async () => {
    const seed = '9223372036854775808';
    expect(await refusal('tokens', { sampling_params: { seed } })).toMatchObject({
      param: 'sampling_params.seed',
      message: '`sampling_params.seed`: Input should fit in 64 bits, got "9223372036854775808"',
      detail: [{ loc: ['body', 'sampling_params', 'seed'] }],
    });
  });

  test('an open end without a message, or before a new one', async () => {
    const open = { continue_final_message: true };
    expect((await refusal('chat', open)).message).toMatch(/^`continue_final_message` requires `add_gen/);
    expect((await refusal('chat', { ...open, add_generation_prompt: false, messages: [] })).message).toBe(
      '`continue_final_message` requires a message, got none',
    );
  });
});
