import type { CountTokens, Message, MessageEvent, MessagesError } from '@trainyard/protocol';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';

import { eventFault, operationOf } from '../../../testing/documented-answers.ts';
import { ScriptedEngineInference } from '../../../testing/scripted-engine.ts';
import { readNamedEvents, TestServer } from '../../../testing/test-server.ts';

const ASK = { max_tokens: 200, messages: [{ role: 'user', content: 'Hello' }] };
const TOOL = { name: 'weather', description: 'Of a city.', input_schema: { type: 'object', properties: { city: {} } } };
const CALLS = [
  '<think>I must look.</think>I look.',
  '<tool_call>\n{"name": "weather", "arguments": {"city": "Rome"}}\n</tool_call>',
].join('\n');

const callOf = (input: string) => `<tool_call>\n{"name": "weather", "arguments": ${input}}\n</tool_call>`;

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
  server.request('POST', '/v1/messages', { ...ASK, ...fields }, headers);

async function message(fields: Record<string, unknown> = {}): Promise<Message> {
  const response = await post(fields);
  if (response.statusCode !== 200) throw new Error(response.body);
  return response.json<Message>();
}

async function stream(fields: Record<string, unknown> = {}): Promise<MessageEvent[]> {
  const response = await post({ ...fields, stream: true });
  const operation = operationOf('POST', '/v1/messages');
  if (operation === undefined) throw new Error('it has an operation');
  const events = readNamedEvents<MessageEvent>(response.body);
  for (const event of events) expect(eventFault(operation, event)).toBeNull();
  return events;
}

/** Assembles the events like a client. */
function assembled(events: MessageEvent[]): Message {
  const [start] = events;
  if (start?.type !== 'message_start') throw new Error('a stream starts with the message');
  const answer = start.message;
  const pieces: string[] = [];
  for (const event of events) {
    if (event.type === 'content_block_start') {
      answer.content.push(event.content_block);
      pieces.push('');
    } else if (event.type === 'content_block_delta') {
      const { delta } = event;
      const block = answer.content[event.index];
      if (delta.type === 'signature_delta' && block?.type === 'thinking') block.signature += delta.signature;
      pieces[event.index] += textOf(delta);
    } else if (event.type === 'message_delta') Object.assign(answer, event.delta, { usage: event.usage });
  }
  answer.content.forEach((block, index) => {
    const text = pieces[index] ?? '';
    if (block.type === 'text') block.text = text;
    else if (block.type === 'thinking') block.thinking = text;
    else if (text !== '') block.input = JSON.parse(text) as Record<string, unknown>;
  });
  return answer;
}

function textOf(delta: Extract<MessageEvent, { type: 'content_block_delta' }>['delta']): string {
  switch (delta.type) {
    case 'text_delta':
      return delta.text;
    case 'thinking_delta':
      return delta.thinking;
    case 'input_json_delta':
      return delta.partial_json;
    case 'signature_delta':
      return '';
    default:
      return delta satisfies never;
  }
}

/** Every call has its own id. */
const withoutIds = (content: Message['content']) =>
  content.map((block) => (block.type === 'tool_use' ? { ...block, id: '' } : block));

/** Messages that the engine got to render. */
const rendered = () => (inference.lastRequest.prompt.kind === 'chat' ? inference.lastRequest.prompt.messages : []);

describe('the answer', () => {
  test('has thoughts and text as blocks, and the usage', async () => {
    const { usage, ...answer } = await message();
    expect(answer).toMatchObject({
      id: expect.stringMatching(/^msg_/),
      type: 'message',
      role: 'assistant',
      model: 'tiny/base',
      content: [
        { type: 'thinking', thinking: 'Hm.', signature: 'unsigned' },
        { type: 'text', text: 'Hello to you.', citations: null },
      ],
      stop_reason: 'end_turn',
      stop_sequence: null,
    });
    expect(usage.input_tokens + usage.cache_read_input_tokens).toBeGreaterThan(5);
    expect(usage.output_tokens_details?.thinking_tokens).toBe('Hm.'.length);
  });

  test.each([
    ['text', {}, '<think>Hm.</think>Hello to you.'],
    ['calls', { tools: [TOOL] }, CALLS],
    ['a forced call', { tools: [TOOL], tool_choice: { type: 'tool', name: 'weather' } }, '{"city": "Rome"}'],
    ['a call with text arguments', { tools: [TOOL] }, callOf('"Rome"')],
    ['a call with list arguments', { tools: [TOOL] }, callOf('[1, 2]')],
    ['nothing', { thinking: { type: 'disabled' } }, ''],
    ['an omitted thought', { thinking: { type: 'adaptive', display: 'omitted' } }, '<think>Hm.</think>Hello to you.'],
    ['a stop sequence', { stop_sequences: ['to'] }, 'Hello to you.'],
    ['a cut', { max_tokens: 5, thinking: { type: 'disabled' } }, 'Hello to you.'],
  ])('%s is the same in a stream', async (_name, fields, text) => {
    inference.model.setReply(text);
    const [whole, events] = [await message(fields), await stream(fields)];
    const { content, stop_reason: reason, stop_sequence: sequence, usage } = assembled(events);
    expect(withoutIds(content)).toEqual(withoutIds(whole.content));
    expect([reason, sequence, usage.output_tokens]).toEqual([
      whole.stop_reason,
      whole.stop_sequence,
      whole.usage.output_tokens,
    ]);
    expect(events.at(-1)).toEqual({ type: 'message_stop' });
  });

  test('calls are blocks with their input, and end with tool_use', async () => {
    inference.model.setReply(CALLS);
    const { content, stop_reason: reason } = await message({ tools: [TOOL] });
    expect(content.map(({ type }) => type)).toEqual(['thinking', 'text', 'tool_use']);
    expect(content[2]).toMatchObject({ name: 'weather', input: { city: 'Rome' }, id: expect.stringMatching(/./) });
    expect(reason).toBe('tool_use');
  });

  test('the input of a call is written as the model wrote it, whole and in a stream', async () => {
    const input = '{"id": 1234567890123456789, "b": 1.0, "10": 1, "2": 2}';
    inference.model.setReply(callOf(input));
    const fields = { tools: [TOOL], thinking: { type: 'disabled' } };
    const { body } = await post(fields);
    expect(body).toContain(`"input":${input}`);
    const pieces = (await stream(fields)).flatMap((event) =>
      event.type === 'content_block_delta' && event.delta.type === 'input_json_delta' ? [event.delta.partial_json] : [],
    );
    expect(pieces.join('')).toBe(input);
  });

  test('arguments that are no object are no call', async () => {
    for (const input of ['"Rome"', '[1, {"a": 2}]', 'true', '17']) {
      inference.model.setReply(callOf(input));
      const { content, stop_reason: reason } = await message({ tools: [TOOL], thinking: { type: 'disabled' } });
      expect([content, reason]).toEqual([[{ type: 'text', text: callOf(input), citations: null }], 'end_turn']);
    }
  });

  test('ends for each reason with its name', async () => {
    inference.model.setReply('Hello to you.');
    const quiet = { thinking: { type: 'disabled' } };
    expect(await message({ ...quiet, max_tokens: 3 })).toMatchObject({ stop_reason: 'max_tokens' });
    expect(await message({ ...quiet, stop_sequences: ['zzz', ' to'] })).toMatchObject({
      stop_reason: 'stop_sequence',
      stop_sequence: ' to',
      content: [{ type: 'text', text: 'Hello' }],
    });
    inference.model.setReply('on and on '.repeat(200));
    expect(await message({ ...quiet, max_tokens: 1024 })).toMatchObject({
      stop_reason: 'model_context_window_exceeded',
    });
  });

  test('a repeat with the same Idempotency-Key is the same answer', async () => {
    const [first, second] = [await post({}, { 'idempotency-key': 'm1' }), await post({}, { 'idempotency-key': 'm1' })];
    expect(second.body).toBe(first.body);
    expect(second.headers['idempotent-replayed']).toBe('true');
  });
});

describe('the request', () => {
  test('system, results of calls and thoughts become messages of a chat', async () => {
    await message({
      system: [{ type: 'text', text: 'Be brief.', cache_control: { type: 'ephemeral' } }],
      tools: [TOOL],
      messages: [
        { role: 'user', content: [{ type: 'text', text: 'Rome?' }] },
        {
          role: 'assistant',
          content: [
            { type: 'thinking', thinking: 'I must look.', signature: '' },
            { type: 'text', text: 'I look.', citations: null },
            { type: 'tool_use', id: 'c1', name: 'weather', input: { city: 'Rome' } },
          ],
        },
        {
          role: 'user',
          content: [
            { type: 'tool_result', tool_use_id: 'c1', content: [{ type: 'text', text: 'sun' }] },
            { type: 'tool_result', tool_use_id: 'c2', content: 'no such city', is_error: true },
            { type: 'text', text: 'And?' },
          ],
        },
      ],
    });
    const call = { id: 'c1', type: 'function', function: { name: 'weather', arguments: '{"city":"Rome"}' } };
    expect(rendered()).toEqual([
      { role: 'system', content: [{ type: 'text', text: 'Be brief.' }] },
      { role: 'user', content: [{ type: 'text', text: 'Rome?' }] },
      {
        role: 'assistant',
        content: [{ type: 'text', text: 'I look.' }],
        reasoning: 'I must look.',
        tool_calls: [call],
      },
      { role: 'tool', tool_call_id: 'c1', content: 'sun' },
      { role: 'tool', tool_call_id: 'c2', content: 'Error: no such city' },
      { role: 'user', content: [{ type: 'text', text: 'And?' }] },
    ]);
  });

  test.each<[Record<string, unknown>, (request: ScriptedEngineInference['lastRequest']) => unknown, unknown]>([
    [{ max_tokens: 7 }, (r) => r.maxTokens, 7],
    [{ temperature: 0.5 }, (r) => r.sampling.temperature, 0.5],
    [{ top_p: 0.5 }, (r) => r.sampling.topP, 0.5],
    [{ top_k: 5 }, (r) => r.sampling.topK, 5],
    // Default behaviour, and values of clients without effect.
    [
      { tools: [{ ...TOOL, eager_input_streaming: true, defer_loading: false, input_examples: [] }], mcp_servers: [] },
      (r) => r.n,
      1,
    ],
    [{ stop_sequences: ['a', 'b'] }, (r) => r.stop, ['a', 'b']],
    [{ tools: [TOOL] }, (r) => r.reply?.toolChoice, 'auto'],
    [{ tools: [TOOL], tool_choice: { type: 'none' } }, (r) => r.reply?.toolChoice, 'none'],
    [{ tools: [TOOL], tool_choice: { type: 'any' } }, (r) => r.reply?.toolChoice, 'required'],
    [
      { tools: [TOOL], tool_choice: { type: 'auto', disable_parallel_tool_use: true } },
      (r) => r.reply?.parallelToolCalls,
      false,
    ],
    [{ thinking: { type: 'enabled', budget_tokens: 9 } }, (r) => r.thinkingTokenBudget, 9],
    [
      { thinking: { type: 'disabled' } },
      (r) => r.prompt.kind === 'chat' && r.prompt.templateVariables,
      { enable_thinking: false },
    ],
    [
      { output_config: { effort: 'low' } },
      (r) => r.prompt.kind === 'chat' && r.prompt.templateVariables,
      { enable_thinking: true, reasoning_effort: 'low' },
    ],
    [
      { messages: [...ASK.messages, { role: 'assistant', content: 'It is' }] },
      (r) => r.prompt.kind === 'chat' && [r.prompt.addGenerationPrompt, r.prompt.continueFinalMessage],
      [false, true],
    ],
  ])('%j acts', async (fields, read, expected) => {
    const { statusCode, body } = await post(fields);
    expect(statusCode, body).toBe(200);
    expect(read(inference.lastRequest)).toEqual(expected);
  });

  test('an output format holds the reply', async () => {
    inference.model.setReply('{"a": 1} and more');
    const schema = { type: 'object', properties: { a: { type: 'integer' } }, required: ['a'] };
    const { content } = await message({
      output_config: { format: { type: 'json_schema', schema } },
      thinking: { type: 'disabled' },
    });
    expect(content).toEqual([{ type: 'text', text: '{"a": 1}', citations: null }]);
  });

  test.each([
    'omitted',
    // Claude Code sends it, with a beta of that name.
    'updates',
    'highlights',
  ])('display: %s leaves the text of thoughts out, which comes back in their signatures', async (display) => {
    const { content, usage } = await message({ thinking: { type: 'adaptive', display } });
    const [thought] = content;
    expect(thought).toMatchObject({ type: 'thinking', thinking: '' });
    expect(JSON.stringify(content)).not.toContain('Hm.');
    expect(usage.output_tokens_details?.thinking_tokens).toBe('Hm.'.length);
    await message({ messages: [...ASK.messages, { role: 'assistant', content }, { role: 'user', content: 'And?' }] });
    expect(rendered()[1]).toMatchObject({ role: 'assistant', reasoning: 'Hm.' });
  });

  test('tools that are put off are shown to the model when a result refers to them', async () => {
    const tools = [
      TOOL,
      { ...TOOL, name: 'time', defer_loading: true },
      { ...TOOL, name: 'date', defer_loading: true },
    ];
    const shown = () => inference.lastRequest.reply?.tools?.map((tool) => tool.function.name);
    await message({ tools });
    expect(shown()).toEqual(['weather']);
    const found = { type: 'tool_result', tool_use_id: 'c1', content: [{ type: 'tool_reference', tool_name: 'date' }] };
    const call = { type: 'tool_use', id: 'c1', name: 'weather', input: {} };
    const messages = [...ASK.messages, { role: 'assistant', content: [call] }, { role: 'user', content: [found] }];
    await message({ tools, messages });
    expect(shown()).toEqual(['weather', 'date']);
    expect(rendered().at(-1)).toMatchObject({ role: 'tool', content: 'Tool found: date' });
  });

  test('examples of inputs come after the description', async () => {
    const described = async (fields: object) => {
      await message({ tools: [{ ...TOOL, ...fields }] });
      return inference.lastRequest.reply?.tools?.[0]?.function.description;
    };
    const examples = { input_examples: [{ city: 'Rome' }, {}] };
    const told = 'Examples of its input:\n{"city":"Rome"}\n{}';
    expect(await described(examples)).toBe(`Of a city.\n${told}`);
    expect(await described({ ...examples, description: null })).toBe(told);
    expect(await described({ input_examples: [] })).toBe('Of a city.');
  });

  test('the billing line is no part of the prompt', async () => {
    const billing = { type: 'text', text: 'x-anthropic-billing-header: cc_version=2; cch=a1;' };
    const system = [billing, { type: 'text', text: 'Be brief.' }];
    await message({ system, messages: [...ASK.messages, { role: 'system', content: [billing] }, ...ASK.messages] });
    expect(JSON.stringify(rendered())).not.toContain('billing');
    expect(rendered()[0]).toEqual({ role: 'system', content: [{ type: 'text', text: 'Be brief.' }] });
  });

  test.each([
    [{ speed: 'standard', inference_geo: 'global', service_tier: 'auto' }],
    [{ tools: [{ ...TOOL, eager_input_streaming: true, allowed_callers: ['direct'], defer_loading: false }] }],
  ])('%j requests the default behaviour', async (fields) => {
    expect(await message(fields)).not.toHaveProperty('context_management');
  });

  test('edits that keep everything change nothing, and the answer lists none as applied', async () => {
    const edits = [{ type: 'clear_thinking_20251015', keep: 'all' }];
    const fields = { context_management: { edits } };
    expect(await message(fields)).toMatchObject({ context_management: { applied_edits: [] } });
    expect((await stream(fields)).at(-2)).toMatchObject({ context_management: { applied_edits: [] } });
    const counted = await server.request('POST', '/v1/messages/count_tokens', { messages: ASK.messages, ...fields });
    const { input_tokens: tokens, context_management: management } = counted.json<CountTokens>();
    expect(management).toEqual({ original_input_tokens: tokens });
  });
});

describe('refusals', () => {
  test.each<[Record<string, unknown>, string | null, string]>([
    [{ max_tokens: 0 }, 'max_tokens', 'request.invalid'],
    [{ max_tokens: 5000 }, 'max_tokens', 'request.conflict'],
    [{ messages: [] }, 'messages', 'request.invalid'],
    [
      { messages: [{ role: 'user', content: [{ type: 'image', source: {} }] }] },
      'messages.0.content.0.type',
      'request.unsupported',
    ],
    [{ messages: [{ role: 'user', content: [{ type: 'text' }] }] }, 'messages.0.content.0.text', 'request.invalid'],
    [
      { messages: [{ role: 'user', content: [{ type: 'text', text: 'a', citations: [{}] }] }] },
      'messages.0.content.0.citations',
      'request.unsupported',
    ],
    [{ tools: [{ ...TOOL, type: 'web_search_20250305' }] }, 'tools.0.type', 'request.unsupported'],
    [{ tools: [{ type: 'bash_20250124', name: 'bash' }] }, 'tools.0.type', 'request.unsupported'],
    [{ tools: [{ name: 'bash' }] }, 'tools.0.input_schema', 'request.invalid'],
    [{ tools: [{ ...TOOL, input_examples: [1] }] }, 'tools.0.input_examples.0', 'request.invalid'],
    [
      { tools: [{ ...TOOL, allowed_callers: ['code_execution_20260120'] }] },
      'tools.0.allowed_callers',
      'request.unsupported',
    ],
    [
      { context_management: { edits: [{ type: 'clear_tool_uses_20250919' }] } },
      'context_management.edits.0',
      'request.unsupported',
    ],
    [
      { context_management: { edits: [{ type: 'clear_thinking_20251015' }] } },
      'context_management.edits.0',
      'request.unsupported',
    ],
    [{ inference_geo: 'eu' }, 'inference_geo', 'request.unsupported'],
    [{ thread: { type: 'create' } }, 'thread', 'request.unsupported'],
    [{ tool_choice: { type: 'any' } }, 'tool_choice', 'request.conflict'],
    [{ tools: [TOOL], tool_choice: { type: 'tool' } }, 'tool_choice.name', 'request.conflict'],
    [{ thinking: { type: 'adaptive', budget_tokens: 5 } }, 'thinking.budget_tokens', 'request.conflict'],
    [{ container: { id: 'x' } }, 'container', 'request.unsupported'],
    [{ speed: 'fast' }, 'speed', 'request.unsupported'],
    [{ seed: 5 }, 'seed', 'request.unsupported'],
    [{ metadata: { other: 1 } }, 'metadata.other', 'request.unsupported'],
  ])('%j is 400 and names %s', async (fields, param, code) => {
    const response = await post(fields);
    expect(response.json<MessagesError>()).toMatchObject({
      type: 'error',
      error: { type: 'invalid_request_error', param, code },
    });
    expect(response.statusCode).toBe(400);
  });

  test('a prompt that is too long is 400 in the words of this form', async () => {
    const response = await post({ messages: [{ role: 'user', content: 'a '.repeat(3000) }] });
    expect(response.statusCode).toBe(400);
    expect(response.json<MessagesError>().error).toMatchObject({
      type: 'invalid_request_error',
      param: 'input_tokens',
      // Clients shorten a conversation after a refusal with this text.
      message: expect.stringMatching(/^prompt is too long: \d+ tokens > 1023 maximum$/),
    });
    const crowd = Array.from({ length: 1025 }, () => ASK.messages[0]);
    expect((await post({ messages: crowd })).json<MessagesError>().error.message).toMatch(
      /^prompt is too long: This model/,
    );
  });

  test('a request for a stored thread gets the error on which its client sends the whole conversation', async () => {
    const { error } = (await post({ thread: { type: 'create' } })).json<MessagesError>();
    expect(error.details).toEqual({ error_code: 'thread_unsupported_request', unsupported: ['thread'] });
    expect((await post({ speed: 'fast' })).json<MessagesError>().error).not.toHaveProperty('details');
  });

  test('every refusal has the form that its clients read', async () => {
    const unknown = await post({ model: 'acme/demo/none' });
    expect([unknown.statusCode, unknown.json<MessagesError>().error.type]).toEqual([404, 'not_found_error']);
    const noKey = await post({}, { authorization: 'Bearer none' });
    expect([noKey.statusCode, noKey.json<MessagesError>().error.type]).toEqual([401, 'authentication_error']);
    expect(noKey.json<MessagesError>().request_id).toBe(noKey.headers['x-request-id']);
    const trainer = await server.makeKey('acme', ['training']);
    const noScope = await post({}, { authorization: `Bearer ${trainer}` });
    expect([noScope.statusCode, noScope.json<MessagesError>().error.type]).toEqual([403, 'permission_error']);
    const large = await post({ system: 'a'.repeat(9_000_000) });
    expect([large.statusCode, large.json<MessagesError>().error.type]).toEqual([413, 'request_too_large']);
    const streamed = await post({ stream: true }, { 'idempotency-key': 'm2' });
    expect(streamed.json<MessagesError>().error.param).toBe('stream');
  });

  test('the key may come as x-api-key', async () => {
    const response = await server.app.inject({
      method: 'POST',
      url: '/v1/messages',
      headers: { 'x-api-key': server.key },
      payload: ASK,
    });
    expect(response.statusCode).toBe(200);
  });
});

describe('count_tokens', () => {
  const count = (fields: Record<string, unknown>) =>
    server.request('POST', '/v1/messages/count_tokens', { messages: ASK.messages, ...fields });

  test('returns the prompt length of the same request', async () => {
    for (const fields of [{}, { tools: [TOOL] }, { system: 'Be brief.' }, { thinking: { type: 'disabled' } }]) {
      const { usage } = await message(fields);
      const counted = (await count(fields)).json<CountTokens>();
      expect(counted).toEqual({ input_tokens: usage.input_tokens + usage.cache_read_input_tokens });
    }
  });

  test('refuses unknown fields, an unknown model, and a key without the scope', async () => {
    expect((await count({ max_tokens: 5 })).json<MessagesError>().error.param).toBe('max_tokens');
    expect((await count({ model: 'acme/demo/none' })).statusCode).toBe(404);
    const trainer = await server.makeKey('acme', ['training']);
    const response = await server.request('POST', '/v1/messages/count_tokens', ASK, {
      authorization: `Bearer ${trainer}`,
    });
    expect(response.statusCode).toBe(403);
  });
});
