import type {
  CountTokens,
  ErrorBody,
  InputTokens,
  Response,
  ResponseEvent,
  TokenizeResponse,
} from '@trainyard/protocol';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { ScriptedEngineInference } from '../../testing/scripted-engine.ts';
import { readNamedEvents, TestServer } from '../../testing/test-server.ts';

/** Histories with members that SDKs add, and with items and blocks of other services. */

const LEFT_OUT = 'x-trainyard-left-out';
const user = (content: unknown) => ({ role: 'user', content });
const said = (content: unknown) => ({ role: 'assistant', content });

let inference: ScriptedEngineInference;
let server: TestServer<ScriptedEngineInference>;
beforeAll(async () => {
  inference = await ScriptedEngineInference.open({ template: 'tools', contextLength: 4096 });
  inference.model.setReply('Ok.');
  server = await TestServer.startOn(inference);
});
afterAll(async () => {
  await server.close();
  inference.close();
});

interface Seen {
  messages: unknown;
  leftOut: unknown;
}

/** Chat made from a request, and its left-out parts, which answers, streams and counts report equally. */
async function seen(url: string, countUrl: string, body: object): Promise<Seen> {
  const answer = await server.request('POST', url, body);
  if (answer.statusCode !== 200) throw new Error(answer.body);
  const { prompt } = inference.lastRequest;
  const { max_tokens: _max, max_output_tokens: _most, ...counted } = body as Record<string, unknown>;
  const others = [
    await server.request('POST', url, { ...body, stream: true }),
    await server.request('POST', countUrl, counted),
  ];
  for (const { statusCode, headers } of others)
    expect([statusCode, headers[LEFT_OUT]]).toEqual([200, answer.headers[LEFT_OUT]]);
  return { messages: prompt.kind === 'chat' ? prompt.messages : [], leftOut: answer.headers[LEFT_OUT] };
}

const items = (...input: object[]) =>
  seen('/v1/responses', '/v1/responses/input_tokens', { input: [user('Go.'), ...input], max_output_tokens: 4 });
/** With calls in the form of a chat. */
const chats = (...messages: object[]) =>
  seen('/v1/chat/completions', '/v1/tokenize', { messages: [user('Go.'), ...messages], max_tokens: 4 });
const turns = (...messages: object[]) =>
  seen('/v1/messages', '/v1/messages/count_tokens', { messages: [user('Go.'), ...messages], max_tokens: 4 });

const CALL = { type: 'function_call', id: 'fc_1', call_id: 'c1', name: 'look', arguments: '{"q":"a"}' };
const RESULT = { type: 'function_call_output', call_id: 'c1', output: 'found' };
const USE = { type: 'tool_use', id: 't1', name: 'look', input: { q: 'a' } };
const called = (name: string, args: unknown, id = 'c1') => ({
  role: 'assistant',
  tool_calls: [{ id, function: { name, arguments: typeof args === 'string' ? args : JSON.stringify(args) } }],
});
const answered = (content: unknown, id = 'c1') => ({ role: 'tool', tool_call_id: id, content });

describe('copies that SDKs add to answers', () => {
  const message = (part: object) => ({
    type: 'message',
    id: 'm',
    role: 'assistant',
    status: 'completed',
    content: [{ type: 'output_text', text: '{"a":1}', annotations: [], logprobs: [], ...part }],
  });
  test.each([{ a: 1 }, null, 'text', [], 0])('are no part of the prompt of Responses: %j', async (copy) => {
    const plain = await items(message({}), CALL, RESULT);
    expect(await items(message({ parsed: copy }), { ...CALL, parsed_arguments: copy }, RESULT)).toEqual(plain);
    for (const extra of [
      { caller: { type: 'direct' } },
      { name: 'look', namespace: 'n' },
      { caller: null, name: null },
    ])
      expect(await items(message({}), { ...CALL, caller: { type: 'direct' } }, { ...RESULT, ...extra })).toEqual(plain);
    expect(plain.leftOut).toBeUndefined();
  });

  test('are no part of the prompt of Messages', async () => {
    const result = { type: 'tool_result', tool_use_id: 't1' };
    const plain = await turns(said([{ type: 'text', text: 'Ok.' }, USE]), user([result]));
    const copies = { citations: null, parsed: { a: 1 }, parsed_output: null };
    expect(
      await turns(said([{ type: 'text', text: 'Ok.', ...copies }, USE]), user([{ ...result, content: null }])),
    ).toEqual(plain);
    expect(
      await turns(
        said([
          { type: 'text', text: 'Ok.' },
          { ...USE, caller: { type: 'direct' } },
        ]),
        user([{ ...result, content: [] }]),
      ),
    ).toEqual(plain);
  });
});

describe('pictures and files in results of tools', () => {
  const PICTURE = { type: 'input_image', image_url: 'data:image/png;base64,iVBORw0KGgo=' };
  const BLOCK = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'iVBORw0KGgo=' } };
  const LEFT = '[Image left out (image/png): this model reads only text.]';

  test('become a text that names the omission', async () => {
    const text = { type: 'text', text: 'Done.' };
    for (const output of [[{ type: 'input_text', text: 'Done.' }, PICTURE], [PICTURE]]) {
      const { messages, leftOut } = await items(CALL, { ...RESULT, output });
      expect(JSON.stringify(messages)).toContain(LEFT);
      expect(leftOut).toBe('input_image=1');
    }
    for (const content of [[text, BLOCK], [BLOCK]]) {
      const { messages, leftOut } = await turns(
        said([USE]),
        user([{ type: 'tool_result', tool_use_id: 't1', content }]),
      );
      expect(JSON.stringify(messages)).toContain(LEFT);
      expect(leftOut).toBe('image=1');
    }
  });

  test.each([
    [
      { type: 'document', source: { type: 'base64', media_type: 'application/pdf', data: 'JVBER' }, title: 'a.pdf' },
      '[File left out (a.pdf, application/pdf)',
      'document=1',
    ],
    [
      { type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'Words.' }, title: 'a.txt' },
      'a.txt\\nWords.',
      undefined,
    ],
    [
      { type: 'search_result', source: 'https://a', title: 'A', content: [{ type: 'text', text: 'Words.' }] },
      'A\\nhttps://a\\nWords.',
      undefined,
    ],
  ])('%j is read', async (block, text, leftOut) => {
    const told = await turns(said([USE]), user([{ type: 'tool_result', tool_use_id: 't1', content: [block] }]));
    expect(JSON.stringify(told.messages)).toContain(text);
    expect(told.leftOut).toBe(leftOut);
  });

  const CALLS = {
    role: 'assistant',
    content: null,
    tool_calls: [{ id: 'c1', type: 'function', function: { name: 'look', arguments: '{"q": "a"}' } }],
  };
  const result = (content: unknown, role = 'tool') => ({ role, tool_call_id: 'c1', content });
  test.each([
    [
      { type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw0KGgo=' } },
      '[Image left out (image/png)',
      'image_url=1',
    ],
    [{ type: 'image_url', image_url: 'https://a/b.png' }, '[Image left out (https://a/b.png)', 'image_url=1'],
    [{ image_url: { url: 'data:image/gif;base64,R0lG' } }, '[Image left out (image/gif)', 'image_url=1'],
    [PICTURE, '[Image left out (image/png)', 'input_image=1'],
    [BLOCK, '[Image left out (image/png)', 'image=1'],
    [
      { type: 'file', file: { filename: 'a.pdf', file_data: 'data:application/pdf;base64,JVBER' } },
      '[File left out (a.pdf, application/pdf)',
      'file=1',
    ],
    [{ type: 'file', file: { file_id: 'file-1' } }, '[File left out: this', 'file=1'],
    [{ type: 'input_audio', input_audio: { data: 'UklGR', format: 'wav' } }, '[File left out (wav)', 'input_audio=1'],
    [{ type: 'video_url', video_url: { url: 'https://a/b.mp4' } }, '[File left out (https://a/b.mp4)', 'video_url=1'],
  ])('%j in a chat becomes a text that names the omission', async (part, text, leftOut) => {
    for (const content of [[part], [{ type: 'text', text: 'Done.' }, part]]) {
      const told = await chats(CALLS, result(content));
      expect(JSON.stringify(told.messages)).toContain(text);
      expect(JSON.stringify(told.messages)).not.toMatch(/iVBOR|R0lG|JVBER|UklGR/);
      expect(told.leftOut).toBe(leftOut);
    }
  });

  test('of a chat are counted by their kinds, also for the older role `function`, and in its count of tokens', async () => {
    const [picture, sound] = [PICTURE, { type: 'input_audio', input_audio: { data: 'UklGR', format: 'wav' } }];
    const messages = [CALLS, result([picture, sound, picture]), { ...result([picture], 'function'), name: 'look' }];
    expect((await chats(...messages)).leftOut).toBe('input_image=3, input_audio=1');
    const count = async (content: unknown) => {
      const body = { messages: [user('Go.'), CALLS, result(content)] };
      return (await server.request('POST', '/v1/tokenize', body)).json<TokenizeResponse>().count;
    };
    expect(await count([picture])).toBe(await count(LEFT));
  });

  test('are counted when a background answer is created, not when it is read', async () => {
    const body = { input: [user('Go.'), CALL, { ...RESULT, output: [PICTURE] }], background: true };
    const created = await server.request('POST', '/v1/responses', body);
    expect([created.statusCode, created.headers[LEFT_OUT]]).toEqual([200, 'input_image=1']);
    const read = await server.request('GET', `/v1/responses/${created.json<Response>().id}`);
    expect([read.statusCode, read.headers[LEFT_OUT]]).toEqual([200, undefined]);
    const streamed = await server.request('POST', '/v1/responses', { ...body, stream: true });
    expect([streamed.statusCode, streamed.headers[LEFT_OUT]]).toEqual([200, 'input_image=1']);
    expect(readNamedEvents<ResponseEvent>(streamed.body).at(-1)?.type).toMatch(/completed|incomplete/);
  });

  test('of the user stay refused by name', async () => {
    const chat = await server.request('POST', '/v1/chat/completions', { messages: [user([PICTURE])] });
    expect([chat.statusCode, chat.json<ErrorBody>().error.param]).toEqual([400, 'messages']);
    const unknown = [user('Go.'), CALLS, result([{ type: 'hologram' }])];
    expect((await server.request('POST', '/v1/chat/completions', { messages: unknown })).statusCode).toBe(400);
    const own = await server.request('POST', '/v1/messages', { messages: [user([BLOCK])], max_tokens: 2 });
    expect([own.statusCode, own.json<ErrorBody>().error.param]).toEqual([400, 'messages.0.content.0.type']);
    const item = await server.request('POST', '/v1/responses', { input: [user([PICTURE])] });
    expect([item.statusCode, item.json<ErrorBody>().error.param]).toEqual([400, 'input.0.content.0.type']);
  });
});

describe('items of other services in Responses', () => {
  test.each<[object, string]>([
    [
      { type: 'web_search_call', id: 'ws', status: 'completed', action: { type: 'search', query: 'x' } },
      'web_search_call=1',
    ],
    [{ type: 'image_generation_call', id: 'ig', result: 'AAAA', status: 'completed' }, 'image_generation_call=1'],
    [{ type: 'compaction', id: 'cmp', encrypted_content: 'gAAA' }, 'compaction=1'],
    [{ type: 'file_search_call', id: 'fs', queries: ['x'], results: null, status: 'completed' }, 'file_search_call=1'],
    [{ type: 'reasoning', id: 'rs', summary: [], encrypted_content: 'gAAA' }, 'encrypted_content=1'],
    [{ type: 'mcp_list_tools', id: 'l', server_label: 's', tools: [] }, 'mcp_list_tools=1'],
  ])('%j is left out and counted', async (item, leftOut) => {
    const answer = { type: 'message', role: 'assistant', content: 'Ok.' };
    const plain = await items(answer, user('More.'));
    expect(await items(item, answer, user('More.'))).toEqual({ ...plain, leftOut });
  });

  test('reasoning of another service is its summary', async () => {
    const item = { type: 'reasoning', summary: [{ type: 'summary_text', text: 'Hm.' }], encrypted_content: 'gAAA' };
    const { messages, leftOut } = await items(item, { type: 'message', role: 'assistant', content: 'Ok.' });
    expect(messages).toMatchObject([{}, { role: 'assistant', content: 'Ok.', reasoning: 'Hm.' }]);
    expect(leftOut).toBe('encrypted_content=1');
  });

  test.each<[object[], string, unknown, unknown]>([
    [
      [{ type: 'mcp_call', id: 'c1', server_label: 's', name: 'f', arguments: '{"a":1}', output: 'out' }],
      's__f',
      { a: 1 },
      'out',
    ],
    [
      [{ type: 'code_interpreter_call', id: 'c1', code: '1+1', outputs: [{ type: 'logs', logs: '2' }] }],
      'code_interpreter',
      { code: '1+1' },
      [{ type: 'text', text: '2' }],
    ],
    [
      [
        { type: 'local_shell_call', call_id: 'c1', action: { type: 'exec', command: ['ls'] } },
        { type: 'local_shell_call_output', call_id: 'c1', output: 'a.txt' },
      ],
      'local_shell',
      { type: 'exec', command: ['ls'] },
      'a.txt',
    ],
    [
      [
        { type: 'shell_call', call_id: 'c1', action: { commands: ['ls'] } },
        {
          type: 'shell_call_output',
          call_id: 'c1',
          output: [{ stdout: 'a.txt', stderr: '', outcome: { type: 'exit', exit_code: 0 } }],
        },
      ],
      'shell',
      { commands: ['ls'] },
      [{ type: 'text', text: 'stdout: a.txt\noutcome: {"type":"exit","exit_code":0}' }],
    ],
  ])('%j is a call with its result', async (told, name, args, content) => {
    const { messages } = await items(...told, user('More.'));
    expect(messages).toMatchObject([{}, called(name, args), answered(content), { role: 'user' }]);
  });

  test('unknown kinds are refused with their position', async () => {
    const web = { type: 'web_search_call', id: 'ws' };
    const input = [user('Go.'), web, { type: 'telepathy_call' }];
    const answer = await server.request('POST', '/v1/responses', { input });
    expect([answer.statusCode, answer.json<ErrorBody>().error.param]).toEqual([400, 'input.2.type']);
  });
});

describe('blocks of other services in Messages', () => {
  const SEARCH = { type: 'server_tool_use', id: 's1', name: 'web_search', input: { query: 'x' } };
  const FOUND = {
    type: 'web_search_tool_result',
    tool_use_id: 's1',
    content: [
      { type: 'web_search_result', title: 'A', url: 'https://a', encrypted_content: 'EqgfCi', page_age: '1 day' },
    ],
  };
  const text = (words: string) => ({ type: 'text', text: words });

  test('redacted thinking is left out and counted', async () => {
    const plain = await turns(said([text('Ok.')]), user('More.'));
    expect(await turns(said([{ type: 'redacted_thinking', data: 'EmwK' }, text('Ok.')]), user('More.'))).toEqual({
      ...plain,
      leftOut: 'redacted_thinking=1',
    });
  });

  test('a tool that a server ran is a call with its result, between the texts around it', async () => {
    const { messages, leftOut } = await turns(said([text('I look.'), SEARCH, FOUND, text('A.')]), user('More.'));
    expect(messages).toMatchObject([
      {},
      { ...called('web_search', { query: 'x' }, 's1'), content: [text('I look.')] },
      answered('title: A\nurl: https://a', 's1'),
      { role: 'assistant', content: [text('A.')] },
      { role: 'user' },
    ]);
    expect(leftOut).toBeUndefined();
  });

  test('errors, fetched pages and code are read, calls without a result are counted', async () => {
    const results: [object, string][] = [
      [{ type: 'web_search_tool_result_error', error_code: 'max_uses_exceeded' }, 'Error: max_uses_exceeded'],
      [{ type: 'code_execution_result', stdout: '2\n', stderr: '', return_code: 0 }, 'stdout: 2\n'],
      [
        {
          type: 'web_fetch_result',
          url: 'https://a',
          content: { type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'Words.' } },
        },
        'url: https://a\nWords.',
      ],
    ];
    for (const [content, shown] of results) {
      const { messages } = await turns(said([SEARCH, { ...FOUND, content }, text('A.')]));
      expect(messages).toMatchObject([{}, {}, answered(shown, 's1'), {}]);
    }
    const { messages, leftOut } = await turns(said([text('I look.'), SEARCH]), user('More.'));
    expect([messages, leftOut]).toMatchObject([[{}, { content: [text('I look.')] }, {}], 'server_tool_use=1']);
  });

  test('a compaction is its text', async () => {
    const { messages, leftOut } = await turns(
      said([
        { type: 'compaction', content: 'So far.' },
        { type: 'compaction', content: null },
      ]),
      user('More.'),
    );
    expect([messages, leftOut]).toMatchObject([[{}, { content: [text('So far.')] }, {}], 'compaction=1']);
  });
});

test('counts are those of the conversation as it is read', async () => {
  const input = [user('Go.'), { type: 'web_search_call', id: 'ws' }];
  const count = async (value: object) =>
    (await server.request('POST', '/v1/responses/input_tokens', value)).json<InputTokens>().input_tokens;
  expect(await count({ input })).toBe(await count({ input: [user('Go.')] }));
  const messages = [
    user('Go.'),
    said([
      { type: 'redacted_thinking', data: 'x' },
      { type: 'text', text: 'Ok.' },
    ]),
  ];
  const counted = await server.request('POST', '/v1/messages/count_tokens', { messages });
  expect(counted.json<CountTokens>().input_tokens).toBeGreaterThan(0);
});
