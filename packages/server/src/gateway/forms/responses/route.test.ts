import type { ErrorBody, InputTokens, Response, ResponseEvent } from '@trainyard/protocol';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';

import { eventFault, operationOf } from '../../../testing/documented-answers.ts';
import { ScriptedEngineInference } from '../../../testing/scripted-engine.ts';
import { readNamedEvents, TestServer } from '../../../testing/test-server.ts';

const TOOL = { type: 'function', name: 'weather', parameters: { type: 'object', properties: { city: {} } } };
const OTHER = { ...TOOL, name: 'time' };
const CALLS = [
  '<think>I must look.</think>I look.',
  '<tool_call>\n{"name": "weather", "arguments": {"city": "Rome"}}\n</tool_call>',
].join('\n');
const CUSTOM = { type: 'custom', name: 'code', description: 'Runs it.' };
const SPACE = {
  type: 'namespace',
  name: 'crm',
  description: 'Of customers.',
  tools: [TOOL, { ...CUSTOM, name: 'note' }],
};
const called = (name: string, input: unknown) =>
  `<tool_call>\n${JSON.stringify({ name, arguments: input })}\n</tool_call>`;
const QUIET = { chat_template_kwargs: { enable_thinking: false } };

let inference: ScriptedEngineInference;
let server: TestServer<ScriptedEngineInference>;
beforeAll(async () => {
  inference = await ScriptedEngineInference.open({ template: 'thinking', contextLength: 1024 });
  server = await TestServer.startOn(inference);
});
beforeEach(() => inference.model.setReply('<think>Hm.</think>Hello to you.'));
afterAll(async () => {
  await server.close();
  inference.close();
});

const post = (fields: Record<string, unknown>, headers = {}) =>
  server.request('POST', '/v1/responses', { input: 'Hello', ...fields }, headers);

async function respond(fields: Record<string, unknown> = {}): Promise<Response> {
  const response = await post(fields);
  if (response.statusCode !== 200) throw new Error(response.body);
  return response.json<Response>();
}

async function stream(fields: Record<string, unknown> = {}): Promise<ResponseEvent[]> {
  const { body } = await post({ ...fields, stream: true });
  const operation = operationOf('POST', '/v1/responses');
  if (operation === undefined) throw new Error('it has an operation');
  const events = readNamedEvents<ResponseEvent>(body);
  for (const event of events) expect(eventFault(operation, event)).toBeNull();
  expect(events.map((event) => event.sequence_number)).toEqual(events.map((_event, index) => index));
  return events;
}

/** Removes ids, which are always new, and times. */
function comparable({ output, ...answer }: Response): unknown {
  const { status, incomplete_details: details, usage } = answer;
  const items = output.map((item) => ({ ...item, id: '', ...('call_id' in item ? { call_id: '' } : {}) }));
  return [status, details, usage?.output_tokens, items];
}

const rendered = () => (inference.lastRequest.prompt.kind === 'chat' ? inference.lastRequest.prompt.messages : []);

describe('the answer', () => {
  test('has reasoning and text as items, the settings that acted, and the usage', async () => {
    const answer = await respond({ instructions: 'Be brief.', metadata: { a: 'b' }, temperature: 0.5, store: false });
    expect(answer).toMatchObject({
      id: expect.stringMatching(/^resp_/),
      object: 'response',
      status: 'completed',
      model: 'tiny/base',
      output: [
        { type: 'reasoning', status: 'completed', content: [{ type: 'reasoning_text', text: 'Hm.' }] },
        {
          type: 'message',
          status: 'completed',
          content: [{ type: 'output_text', text: 'Hello to you.', logprobs: [] }],
        },
      ],
      instructions: 'Be brief.',
      metadata: { a: 'b' },
      temperature: 0.5,
      top_p: 1,
      store: false,
    });
    expect(answer.usage?.output_tokens_details.reasoning_tokens).toBe('Hm.'.length);
    expect(rendered()[0]).toEqual({ role: 'system', content: 'Be brief.' });
  }, 60_000);

  test.each([
    ['text', {}, '<think>Hm.</think>Hello to you.'],
    ['calls', { tools: [TOOL] }, CALLS],
    ['a forced call', { tools: [TOOL], tool_choice: { type: 'function', name: 'weather' } }, '{"city": "Rome"}'],
    ['a call of a custom tool', { tools: [CUSTOM] }, called('code', { input: 'print("é")\n' })],
    ['a call within a namespace', { tools: [SPACE] }, called('crm__weather', { city: 'Rome' })],
    ['a thought with a summary', { reasoning: { summary: 'auto' } }, '<think>Hm.</think>Hello.'],
    ['a thought to send back', { include: ['reasoning.encrypted_content'] }, '<think>Hm.</think>Hello.'],
    ['nothing', QUIET, ''],
    ['a cut', { ...QUIET, max_output_tokens: 5 }, 'Hello to you.'],
    ['log-probabilities', { ...QUIET, top_logprobs: 2 }, 'Hello to you.'],
  ])('%s is the same in a stream', async (_name, fields, text) => {
    inference.model.setReply(text);
    const whole = await respond(fields);
    const events = await stream(fields);
    const last = events.at(-1);
    if (last === undefined || !('response' in last)) throw new Error('a stream ends with the response');
    expect(last.type).toBe(`response.${whole.status}`);
    expect(comparable(last.response)).toEqual(comparable(whole));
    const texts = events.flatMap((event) => (event.type === 'response.output_text.delta' ? [event.delta] : []));
    const told = whole.output.flatMap((item) => (item.type === 'message' ? item.content.map((part) => part.text) : []));
    expect(texts.join('')).toBe(told.join(''));
    const pieces = events.flatMap((event) =>
      event.type === 'response.function_call_arguments.delta' ? [event.delta] : [],
    );
    const called = whole.output.flatMap((item) => (item.type === 'function_call' ? [item.arguments] : []));
    expect(pieces.join('')).toBe(called.join(''));
    const inputs = events.flatMap((event) =>
      event.type === 'response.custom_tool_call_input.delta' ? [event.delta] : [],
    );
    const customs = whole.output.flatMap((item) => (item.type === 'custom_tool_call' ? [item.input] : []));
    expect(inputs.join('')).toBe(customs.join(''));
  });

  test('every item of a stream starts, grows and ends in order', async () => {
    inference.model.setReply(CALLS);
    const types = (await stream({ tools: [TOOL] })).map(({ type }) => type.replace('response.', ''));
    const once = types.filter((type, index) => !type.endsWith('.delta') || types[index - 1] !== type);
    expect(once).toEqual([
      'created',
      'in_progress',
      'output_item.added',
      'content_part.added',
      'reasoning_text.delta',
      'reasoning_text.done',
      'content_part.done',
      'output_item.done',
      'output_item.added',
      'content_part.added',
      'output_text.delta',
      'output_text.done',
      'content_part.done',
      'output_item.done',
      'output_item.added',
      'function_call_arguments.delta',
      'function_call_arguments.done',
      'output_item.done',
      'completed',
    ]);
  });

  test('a summary that is asked for is the whole thought, in the events and the item that clients read', async () => {
    inference.model.setReply('<think>Hm, so.</think>Hello.');
    const fields = { reasoning: { summary: 'auto' } };
    const { output } = await respond(fields);
    expect(output[0]).toMatchObject({
      summary: [{ type: 'summary_text', text: 'Hm, so.' }],
      content: [{ type: 'reasoning_text', text: 'Hm, so.' }],
    });
    const events = await stream(fields);
    const ofSummary = events.filter(({ type }) => type.startsWith('response.reasoning_summary'));
    const deltas = events.flatMap((event) =>
      event.type === 'response.reasoning_summary_text.delta' ? [event.delta] : [],
    );
    expect(deltas.join('')).toBe('Hm, so.');
    expect(ofSummary[0]).toMatchObject({ type: 'response.reasoning_summary_part.added', summary_index: 0 });
    expect(ofSummary.slice(-2)).toMatchObject([
      { type: 'response.reasoning_summary_text.done', text: 'Hm, so.' },
      { type: 'response.reasoning_summary_part.done', part: { type: 'summary_text', text: 'Hm, so.' } },
    ]);
    await respond({ input: [{ role: 'user', content: 'Hello' }, ...output, { role: 'user', content: 'And?' }] });
    expect(rendered()[1]).toMatchObject({ role: 'assistant', reasoning: 'Hm, so.' });
    expect((await respond()).output[0]).toMatchObject({ summary: [] });
  });

  test('log-probabilities are those of the text', async () => {
    inference.model.setReply('<think>Hm.</think>Hello.');
    const answer = await respond({ include: ['message.output_text.logprobs'], top_logprobs: 1 });
    const item = answer.output.find(({ type }) => type === 'message');
    if (item?.type !== 'message') throw new Error('it has a message');
    const [part] = item.content;
    expect(part?.logprobs.map(({ token }) => token).join('')).toContain('Hello.');
    expect(part?.logprobs.every((entry) => entry.top_logprobs.length === 1)).toBe(true);
  });

  test('a repeat with the same Idempotency-Key is the same answer', async () => {
    const [first, second] = [await post({}, { 'idempotency-key': 'r1' }), await post({}, { 'idempotency-key': 'r1' })];
    expect(second.body).toBe(first.body);
  });
});

describe('the request', () => {
  test('an answer and the results of its calls go back in as they are', async () => {
    inference.model.setReply(CALLS);
    const { output } = await respond({ tools: [TOOL] });
    const call = output.find((item) => item.type === 'function_call');
    if (call?.type !== 'function_call') throw new Error('it calls');
    await respond({
      tools: [TOOL],
      input: [
        { role: 'developer', content: 'Be brief.' },
        { role: 'user', content: [{ type: 'input_text', text: 'Rome?' }] },
        ...output,
        { type: 'function_call_output', call_id: call.call_id, output: 'sun' },
        { type: 'message', role: 'user', content: 'And?' },
      ],
    });
    const called = { name: 'weather', arguments: '{"city": "Rome"}' };
    expect(rendered()).toEqual([
      { role: 'developer', content: 'Be brief.' },
      { role: 'user', content: [{ type: 'text', text: 'Rome?' }] },
      {
        role: 'assistant',
        reasoning: 'I must look.',
        content: [{ type: 'text', text: expect.stringContaining('I look.') }],
        tool_calls: [{ id: call.call_id, type: 'function', function: called }],
      },
      { role: 'tool', tool_call_id: call.call_id, content: 'sun' },
      { role: 'user', content: 'And?' },
    ]);
  });

  test('calls of custom tools and within namespaces are named as their client knows them, there and back', async () => {
    inference.model.setReply([called('code', { input: 'print(1)' }), called('crm__note', { text: 'late' })].join('\n'));
    const tools = [CUSTOM, SPACE];
    const { output } = await respond({ tools });
    expect(inference.lastRequest.reply?.tools?.map((tool) => tool.function)).toMatchObject([
      { name: 'code', description: 'Runs it.', parameters: { required: ['input'] } },
      { name: 'crm__weather', description: 'Of customers.\n' },
      { name: 'crm__note', description: 'Of customers.\nRuns it.' },
    ]);
    const calls = output.filter((item) => item.type === 'custom_tool_call');
    expect(calls).toMatchObject([
      { id: expect.stringMatching(/^ctc_/), name: 'code', input: 'print(1)' },
      // Arguments without an input are themselves the input.
      { name: 'note', namespace: 'crm', input: '{"text": "late"}' },
    ]);
    expect(calls[0]).not.toHaveProperty('namespace');
    const results = calls.map(({ call_id: id }) => ({ type: 'custom_tool_call_output', call_id: id, output: 'done' }));
    await respond({ tools, input: [{ role: 'user', content: 'Go.' }, ...output, ...results] });
    expect(rendered()).toMatchObject([
      { role: 'user' },
      {
        role: 'assistant',
        tool_calls: [
          { id: calls[0]!.call_id, function: { name: 'code', arguments: '{"input":"print(1)"}' } },
          { id: calls[1]!.call_id, function: { name: 'crm__note', arguments: '{"input":"{\\"text\\": \\"late\\"}"}' } },
        ],
      },
      { role: 'tool', content: 'done' },
      { role: 'tool', content: 'done' },
    ]);
  });

  test('a thought is read back from encrypted_content', async () => {
    const { output } = await respond({ include: ['reasoning.encrypted_content'] });
    const [thought, ...rest] = output;
    if (thought?.type !== 'reasoning') throw new Error('it thinks');
    expect(thought.encrypted_content).not.toContain('Hm.');
    for (const sent of [{ ...thought, content: undefined }, { ...thought, content: [] }, thought]) {
      await respond({ input: [{ role: 'user', content: 'Hello' }, sent, ...rest, { role: 'user', content: 'And?' }] });
      expect(rendered()[1]).toMatchObject({ role: 'assistant', reasoning: 'Hm.' });
    }
    expect((await respond()).output[0]).toMatchObject({ type: 'reasoning', encrypted_content: null });
  });

  test.each<[Record<string, unknown>, (request: ScriptedEngineInference['lastRequest']) => unknown, unknown]>([
    [{ max_output_tokens: 7 }, (r) => r.maxTokens, 7],
    [{ temperature: '0.5' }, (r) => r.sampling.temperature, 0.5],
    [
      { top_p: 0.5, seed: 7, top_k: 5, min_p: 0.1 },
      (r) => [r.sampling.topP, r.sampling.seed, r.sampling.topK, r.sampling.minP],
      [0.5, 7n, 5, 0.1],
    ],
    [{ stop: ['a'] }, (r) => r.stop, ['a']],
    [{ tools: [TOOL], tool_choice: 'required' }, (r) => r.reply?.toolChoice, 'required'],
    [{ tools: [TOOL], parallel_tool_calls: false }, (r) => r.reply?.parallelToolCalls, false],
    [
      {
        tools: [TOOL, OTHER],
        tool_choice: { type: 'allowed_tools', mode: 'required', tools: [{ type: 'function', name: 'time' }] },
      },
      (r) => [r.reply?.toolChoice, r.reply?.tools?.map((tool) => tool.function.name)],
      ['required', ['time']],
    ],
    [
      { tools: [TOOL, CUSTOM], tool_choice: { type: 'custom', name: 'code' } },
      (r) => r.reply?.toolChoice,
      { name: 'code' },
    ],
    [
      { tools: [TOOL, SPACE], tool_choice: { type: 'allowed_tools', tools: [{ type: 'custom', name: 'note' }] } },
      (r) => r.reply?.tools?.map((tool) => tool.function.name),
      ['crm__note'],
    ],
    [{ tools: [{ ...TOOL, defer_loading: false, async: false, allowed_callers: ['direct'] }] }, (r) => r.n, 1],
    [
      {
        client_metadata: { turn: '1' },
        prompt_cache_retention: '24h',
        prompt_cache_options: {},
        prompt_cache_key: 'k',
      },
      (r) => r.n,
      1,
    ],
    [{ top_logprobs: 3 }, (r) => r.logprobs, 3],
    [{ include: ['message.output_text.logprobs'] }, (r) => r.logprobs, 0],
    [
      { reasoning: { effort: 'none' } },
      (r) => r.prompt.kind === 'chat' && r.prompt.templateVariables['enable_thinking'],
      false,
    ],
    [{ cache_salt: 'x', priority: 3 }, (r) => [r.cacheSalt, r.priority], ['x', 3]],
    [{ thinking_token_budget: 4 }, (r) => r.thinkingTokenBudget, 4],
    [
      { include: ['reasoning.encrypted_content'], store: false, background: false, truncation: 'disabled' },
      (r) => r.truncatePromptTokens,
      null,
    ],
    [{ truncation: 'auto' }, (r) => r.truncatePromptTokens, -1],
    // Hints about costs elsewhere, and values of clients without effect.
    [
      {
        text: { verbosity: 'low' },
        prompt_cache_key: 'k',
        prompt_cache_retention: '24h',
        prompt_cache_options: { mode: 'explicit' },
        previous_response_id: '',
        context_management: [],
        max_tool_calls: 0,
        tools: [{ ...TOOL, defer_loading: false, allowed_callers: [] }],
        input: [{ role: 'user', content: [{ type: 'input_text', text: 'Hello', prompt_cache_breakpoint: {} }] }],
      },
      (r) => r.n,
      1,
    ],
  ])('%j acts', async (fields, read, expected) => {
    const { statusCode, body } = await post(fields);
    expect(statusCode, body).toBe(200);
    expect(read(inference.lastRequest)).toEqual(expected);
  });

  test.each([
    [
      {
        type: 'json_schema',
        name: 'a',
        schema: { type: 'object', properties: { a: { type: 'integer' } }, required: ['a'] },
      },
    ],
    [{ type: 'json_object' }],
  ])('the format %j holds the reply', async (format) => {
    inference.model.setReply('{"a": 1} and more');
    const { output } = await respond({ ...QUIET, text: { format } });
    expect(output).toMatchObject([{ type: 'message', content: [{ text: '{"a": 1}' }] }]);
  });
});

describe('reasoning that is carried in encrypted_content', () => {
  const include = ['reasoning.encrypted_content'];
  const carriedBy = ({ output }: Response) => output.find((item) => item.type === 'reasoning')?.encrypted_content;
  const prompted = async (fields: Record<string, unknown>) => {
    const answered = { type: 'message', role: 'assistant', content: 'Hello.' };
    await respond({ input: [{ role: 'user', content: 'Hi' }, { type: 'reasoning', ...fields }, answered] });
    return rendered()[1];
  };

  test('is in the answer on request, whole and streamed', async () => {
    inference.model.setReply('<think>Über ½ 🚂</think>Hello.');
    expect(carriedBy(await respond())).toBeNull();
    const carried = carriedBy(await respond({ include }));
    expect(carried).toMatch(/^[\w-]+$/);
    const events = await stream({ include });
    const items = events.flatMap((event) => ('item' in event && event.item.type === 'reasoning' ? [event.item] : []));
    expect(items.map((item) => item.encrypted_content)).toEqual([null, carried]);
    const last = events.at(-1);
    expect(last?.type === 'response.completed' && carriedBy(last.response)).toBe(carried);
  });

  test('is read back if the text itself is not sent', async () => {
    inference.model.setReply('<think>Über ½ 🚂</think>Hello.');
    const carried = carriedBy(await respond({ include }));
    const message = { role: 'assistant', content: 'Hello.' };
    expect(await prompted({ summary: [], encrypted_content: carried })).toEqual({ ...message, reasoning: 'Über ½ 🚂' });
    const content = [{ type: 'reasoning_text', text: 'Hm.' }];
    const whole = { ...message, reasoning: 'Hm.' };
    expect(await prompted({ content, encrypted_content: carried })).toEqual(whole);
    expect(await prompted({ content, encrypted_content: 'gAAAA' })).toEqual(whole);
    expect(await prompted({ content: [], summary: [{ type: 'summary_text', text: 'Hm.' }] })).toEqual(whole);
    expect(await prompted({ content: [], summary: [] })).toEqual(message);
  });

  test('is left out and counted if another service wrote it and the text is missing', async () => {
    const carried = carriedBy(await respond({ include })) ?? '';
    for (const encrypted of ['gAAAA', `${carried}=`]) {
      const input = [
        { role: 'user', content: 'Hi' },
        { type: 'reasoning', summary: [], encrypted_content: encrypted },
      ];
      const { statusCode, headers } = await post({ input });
      expect([statusCode, headers['x-trainyard-left-out']]).toEqual([200, 'encrypted_content=1']);
      expect(rendered()).toEqual([{ role: 'user', content: 'Hi' }]);
    }
  });
});

describe('input_tokens', () => {
  const count = (fields: Record<string, unknown>) =>
    server.request('POST', '/v1/responses/input_tokens', { input: 'Hello', ...fields });

  test('returns the prompt length of the same request', async () => {
    const input = [{ role: 'user', content: 'Hello' }];
    for (const fields of [
      {},
      { input },
      { tools: [TOOL] },
      { instructions: 'Be brief.' },
      QUIET,
      { reasoning: { effort: 'none' } },
    ]) {
      const { usage } = await respond(fields);
      expect((await count(fields)).json()).toEqual({
        object: 'response.input_tokens',
        input_tokens: usage?.input_tokens,
      });
    }
    const long = await count({ input: 'a'.repeat(2000), truncation: 'auto' });
    expect(long.json<InputTokens>().input_tokens).toBeGreaterThan(2000);
  });

  test.each<[Record<string, unknown>, string, number]>([
    [{ max_output_tokens: 5 }, 'max_output_tokens', 400],
    [{ previous_response_id: 'resp_1' }, 'previous_response_id', 400],
    [{ input: 5 }, 'input', 400],
    [{ model: 'none' }, 'model', 404],
  ])('%j is refused and names %s', async (fields, param, status) => {
    const response = await count(fields);
    expect([response.statusCode, response.json<ErrorBody>().error.param]).toEqual([status, param]);
  });
});

describe('refusals', () => {
  test.each<[Record<string, unknown>, string, string]>([
    [{ input: 5 }, 'input', 'request.invalid'],
    [{ max_output_tokens: 0 }, 'max_output_tokens', 'request.invalid'],
    [{ max_output_tokens: 5000 }, 'max_output_tokens', 'request.conflict'],
    [{ previous_response_id: 'resp_1' }, 'previous_response_id', 'previous_response_not_found'],
    [{ conversation: { id: 'c', other: 1 } }, 'conversation.other', 'request.unsupported'],
    [{ conversation: {} }, 'conversation.id', 'request.invalid'],
    [{ background: true, store: false }, 'background', 'request.conflict'],
    [{ truncation: 'some' }, 'truncation', 'request.invalid'],
    [{ include: ['some_call.results'] }, 'include', 'request.unsupported'],
    [{ nothing_known: 1 }, 'nothing_known', 'request.unsupported'],
    [{ text: { verbosity: 'some' } }, 'text.verbosity', 'request.invalid'],
    [{ tools: [{ type: 'web_search' }] }, 'tools.0.type', 'request.unsupported'],
    [{ tools: [{ ...TOOL, defer_loading: true }] }, 'tools.0.defer_loading', 'request.unsupported'],
    [{ tools: [{ ...TOOL, async: true }] }, 'tools.0.async', 'request.unsupported'],
    [{ tools: [{ ...TOOL, allowed_callers: ['programmatic'] }] }, 'tools.0.allowed_callers', 'request.unsupported'],
    [{ tools: [{ ...TOOL, format: { type: 'text' } }] }, 'tools.0.format', 'request.unsupported'],
    [{ tools: [{ ...CUSTOM, format: { type: 'grammar' } }] }, 'tools.0.format', 'request.unsupported'],
    [{ tools: [{ ...SPACE, tools: [{ type: 'mcp' }] }] }, 'tools.0.tools.0.type', 'request.unsupported'],
    [{ tools: [{ ...TOOL, name: 'crm__weather' }, SPACE] }, 'tools', 'request.conflict'],
    [{ tools: [{ type: 'function' }] }, 'tools.0.name', 'request.invalid'],
    [{ tool_choice: 'required' }, 'tool_choice', 'request.conflict'],
    [{ tools: [TOOL], tool_choice: { type: 'function', name: 'none' } }, 'tool_choice.name', 'request.conflict'],
    [
      { tools: [TOOL], tool_choice: { type: 'allowed_tools', tools: [{ name: 'x' }] } },
      'tool_choice.tools',
      'request.conflict',
    ],
    [{ input: [{ type: 'item_reference' }] }, 'input.0.id', 'request.invalid'],
    [
      { input: [{ role: 'user', content: [{ type: 'input_image' }] }] },
      'input.0.content.0.type',
      'request.unsupported',
    ],
    [
      { input: [{ type: 'custom_tool_call', call_id: 'c', name: 'a', arguments: '{}' }] },
      'input.0.arguments',
      'request.unsupported',
    ],
    [{ input: [{ type: 'function_call', call_id: 'c', arguments: '{}' }] }, 'input.0.name', 'request.invalid'],
    [{ stream_options: { include_obfuscation: true } }, 'stream_options', 'request.conflict'],
  ])('%j is 400 and names %s', async (fields, param, code) => {
    const response = await post(fields);
    expect(response.json<ErrorBody>().error).toMatchObject({ type: 'invalid_request_error', param, code });
    expect(response.statusCode).toBe(400);
  });

  test('an unknown model, no key, no scope, a long prompt and a streamed repeat are refused', async () => {
    expect((await post({ model: 'acme/demo/none' })).statusCode).toBe(404);
    expect((await post({}, { authorization: 'Bearer none' })).statusCode).toBe(401);
    const trainer = await server.makeKey('acme', ['training']);
    expect((await post({}, { authorization: `Bearer ${trainer}` })).statusCode).toBe(403);
    const long = await post({ input: 'a '.repeat(3000) });
    expect([long.statusCode, long.json<ErrorBody>().error.param]).toEqual([400, 'input_tokens']);
    expect((await post({ stream: true }, { 'idempotency-key': 'r2' })).json<ErrorBody>().error.param).toBe('stream');
  });
});
