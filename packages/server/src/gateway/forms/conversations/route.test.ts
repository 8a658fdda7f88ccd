import type {
  ConversationItemList,
  ConversationObject,
  ErrorBody,
  Response,
  ResponseEvent,
  ResponseInputItem,
} from '@trainyard/protocol';
import { StoreError } from '@trainyard/store';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';

import { ByteBudget } from '../../bodies/byte-budget.ts';
import { ScriptedEngineInference } from '../../../testing/scripted-engine.ts';
import { readNamedEvents, TestServer } from '../../../testing/test-server.ts';

const TOOL = { type: 'function', name: 'weather', parameters: { type: 'object', properties: { city: {} } } };
const CALLS =
  '<think>I must look.</think>I look.\n<tool_call>\n{"name": "weather", "arguments": {"city": "Rome"}}\n</tool_call>';

let inference: ScriptedEngineInference;
let server: TestServer<ScriptedEngineInference>;
let other: TestServer;
let stranger: string;
beforeAll(async () => {
  inference = await ScriptedEngineInference.open({ template: 'thinking', contextLength: 2048 });
  server = await TestServer.startOn(inference);
  other = await server.startAnother('the other process');
  stranger = await server.makeKey('other', ['inference']);
});
beforeEach(() => inference.model.setReply('<think>Hm.</think>Hello to you.'));
afterEach(() => vi.restoreAllMocks());
afterAll(async () => {
  await other.close();
  await server.close();
  inference.close();
});

const send = (method: 'GET' | 'POST' | 'DELETE', path: string, body?: unknown, headers = {}) =>
  server.request(method, `/v1/conversations${path}`, body, headers);

async function make(body: unknown = {}, headers = {}): Promise<string> {
  const answer = await send('POST', '', body, headers);
  if (answer.statusCode !== 200) throw new Error(answer.body);
  return answer.json<ConversationObject>().id;
}

async function itemsOf(id: string, query = 'order=asc&limit=100'): Promise<ConversationItemList['data']> {
  const answer = await send('GET', `/${id}/items?${query}`);
  if (answer.statusCode !== 200) throw new Error(answer.body);
  return answer.json<ConversationItemList>().data;
}

const post = (fields: Record<string, unknown>, headers = {}) =>
  server.request('POST', '/v1/responses', { input: 'Hello', ...fields }, headers);

async function respond(fields: Record<string, unknown> = {}): Promise<Response> {
  const answer = await post(fields);
  if (answer.statusCode !== 200) throw new Error(answer.body);
  return answer.json<Response>();
}

async function ended(id: string): Promise<Response> {
  const read = async () => (await server.request('GET', `/v1/responses/${id}`)).json<Response>();
  await expect.poll(async () => (await read()).status).not.toMatch(/queued|in_progress/);
  return await read();
}

const rendered = () => (inference.lastRequest.prompt.kind === 'chat' ? inference.lastRequest.prompt.messages : []);
const textsOf = (items: readonly ResponseInputItem[]) =>
  items.map(({ type, content }) =>
    type === 'message' ? (content as { text: string }[]).map(({ text }) => text.trim()).join() : type,
  );
const faultOf = (answer: { statusCode: number; json: <T>() => T }) => {
  const { code, param } = answer.json<ErrorBody>().error;
  return [answer.statusCode, code, param];
};

describe('/v1/conversations', () => {
  test('are made, read, changed and deleted', async () => {
    const metadata = { topic: 'Zürich 🚂' };
    const made = await send('POST', '', { metadata });
    const conversation = made.json<ConversationObject>();
    expect(conversation).toEqual({
      id: expect.stringMatching(/^conv_[0-9a-f]{32}$/),
      object: 'conversation',
      created_at: expect.any(Number),
      metadata,
    });
    const { id } = conversation;
    expect((await send('GET', `/${id}`)).json()).toEqual(conversation);
    expect((await send('POST', `/${id}`, { metadata: { a: 'b' } })).json()).toEqual({
      ...conversation,
      metadata: { a: 'b' },
    });
    expect((await send('POST', `/${id}`, { metadata: null })).json<ConversationObject>().metadata).toEqual({});
    expect((await send('DELETE', `/${id}`)).json()).toEqual({ id, object: 'conversation.deleted', deleted: true });
    for (const answer of [
      await send('GET', `/${id}`),
      await send('POST', `/${id}`, { metadata: {} }),
      await send('DELETE', `/${id}`),
      await send('GET', `/${id}/items`),
      await send('POST', `/${id}/items`, { items: [] }),
      await send('GET', `/${id}/items/msg`),
      await send('DELETE', `/${id}/items/msg`),
    ])
      expect(faultOf(answer)).toEqual([404, 'request.not_found', 'conversation_id']);
  });

  test.each([undefined, null, {}, { items: null, metadata: null }])('can be made of %j', async (body) => {
    expect(await itemsOf(await make(body))).toEqual([]);
  });

  test.each<[unknown, string, string]>([
    [{ items: Array.from({ length: 21 }, () => ({ role: 'user', content: 'x' })) }, 'items', 'request.invalid'],
    [
      { items: [{ role: 'user', content: [{ type: 'input_image' }] }] },
      'items.0.content.0.type',
      'request.unsupported',
    ],
    [{ items: [{ type: 'item_reference', id: 'x' }] }, 'items.0.id', 'request.not_found'],
    [{ items: [{ role: 'user', content: 'x', id: 'ü' }] }, 'items.0.id', 'request.invalid'],
    [{ items: [{ role: 'user', content: 'x', id: 'x'.repeat(257) }] }, 'items.0.id', 'request.invalid'],
    [{ items: ['a', 'a'].map((id) => ({ role: 'user', content: 'x', id })) }, 'items.1.id', 'request.conflict'],
    [{ metadata: Object.fromEntries(Array.from({ length: 17 }, (_, n) => [n, ''])) }, 'metadata', 'request.invalid'],
    [{ metadata: { ['x'.repeat(65)]: '' } }, 'metadata', 'request.invalid'],
    [{ metadata: { a: 'x'.repeat(513) } }, 'metadata.a', 'request.invalid'],
    [{ metadata: { a: 1 } }, 'metadata.a', 'request.invalid'],
    [{ title: 'x' }, 'title', 'request.invalid'],
  ])('%j is refused', async (body, param, code) => {
    const answer = await send('POST', '', body);
    expect(answer.statusCode).toBe(code === 'request.not_found' ? 404 : 400);
    const error = answer.json<ErrorBody>();
    expect([error.error.code, error.error.param]).toEqual([code, expect.stringContaining(param)]);
  });

  test('a repeat with an Idempotency-Key makes no second one, and adds nothing twice', async () => {
    const headers = { 'idempotency-key': crypto.randomUUID() };
    const body = { items: [{ role: 'user', content: 'One.' }] };
    const id = await make(body, headers);
    expect(await make(body, headers)).toBe(id);
    const again = { 'idempotency-key': crypto.randomUUID() };
    for (let repeat = 0; repeat < 2; repeat += 1) await send('POST', `/${id}/items`, body, again);
    expect(await itemsOf(id)).toHaveLength(2);
  });

  test('a request that fails after its write has one effect: its repeat gets the answer', async () => {
    const id = await make();
    const item = { items: [{ role: 'user', content: 'One.' }] };
    for (const [path, body] of [
      ['/v1/conversations', item],
      [`/v1/conversations/${id}/items`, item],
      ['/v1/responses', { input: 'Two.', conversation: id }],
      ['/v1/responses', { input: 'Three.', conversation: id, store: false }],
      ['/v1/responses', { input: 'Four.', conversation: id, background: true }],
    ] as const) {
      vi.spyOn(server.store.idempotency, 'complete').mockRejectedValueOnce(new StoreError('store.busy', 'busy'));
      const headers = { 'idempotency-key': crypto.randomUUID() };
      expect((await server.request('POST', path, body, headers)).statusCode).toBe(503);
      const repeated = await server.request('POST', path, body, headers);
      expect([repeated.statusCode, repeated.headers['idempotent-replayed']]).toEqual([200, 'true']);
      if ('background' in body) await ended(repeated.json<Response>().id);
    }
    const inputs = ['One.', 'Two.', 'Three.', 'Four.'];
    expect(textsOf(await itemsOf(id)).filter((text) => inputs.includes(String(text)))).toEqual(inputs);
  });

  test('are unknown to other owners and other projects', async () => {
    const project = { 'openai-project': 'team/one' };
    const id = await make({ items: [{ role: 'user', content: 'x', id: 'msg_1' }] }, project);
    for (const headers of [{ ...project, authorization: `Bearer ${stranger}` }, { 'openai-project': 'team/two' }, {}]) {
      const answers = [
        await send('GET', `/${id}`, undefined, headers),
        await send('POST', `/${id}`, { metadata: {} }, headers),
        await send('DELETE', `/${id}`, undefined, headers),
        await send('GET', `/${id}/items`, undefined, headers),
        await send('POST', `/${id}/items`, { items: [] }, headers),
        await send('GET', `/${id}/items/msg_1`, undefined, headers),
        await send('DELETE', `/${id}/items/msg_1`, undefined, headers),
      ];
      for (const answer of answers) expect(faultOf(answer)).toEqual([404, 'request.not_found', 'conversation_id']);
      expect(faultOf(await post({ conversation: id }, headers))).toEqual([404, 'request.not_found', 'conversation']);
      expect(faultOf(await post({ input: [{ type: 'item_reference', id: 'msg_1' }] }, headers))[0]).toBe(404);
    }
    const colleague = await server.makeKey('acme', ['inference']);
    const own = { ...project, authorization: `Bearer ${colleague}` };
    expect((await send('GET', `/${id}`, undefined, own)).statusCode).toBe(200);
    const reference = [{ type: 'item_reference', id: 'msg_1' }];
    expect((await post({ input: reference }, own)).statusCode).toBe(200);
  });
});

describe('items', () => {
  test('are added, listed in pages, read and deleted', async () => {
    const id = await make({ items: [{ role: 'developer', content: 'Be brief.' }] });
    const added = await send('POST', `/${id}/items`, {
      items: [
        { role: 'user', content: 'Rome?', id: 'msg_own' },
        { type: 'function_call', call_id: 'c', name: 'weather', arguments: '{}' },
        { type: 'function_call_output', call_id: 'c', output: 'sun' },
      ],
    });
    const list = added.json<ConversationItemList>();
    expect([list.first_id, list.last_id, list.has_more]).toEqual(['msg_own', list.data.at(-1)?.id, false]);
    expect(list.data[0]).toEqual({
      type: 'message',
      id: 'msg_own',
      role: 'user',
      status: 'completed',
      content: [{ type: 'input_text', text: 'Rome?' }],
    });
    const all = await itemsOf(id);
    expect(all.slice(1)).toEqual(list.data);
    expect(await itemsOf(id, '')).toEqual(all.toReversed());
    const include = [
      'include[]=message.output_text.logprobs&include[]=reasoning.encrypted_content',
      'include=file_search_call.results',
    ];
    for (const named of include) expect(await itemsOf(id, `order=asc&${named}`)).toEqual(all);
    expect(faultOf(await send('GET', `/${id}/items?include[]=x`))).toEqual([400, 'request.unsupported', 'include']);
    const page = (await send('GET', `/${id}/items?limit=2&after=msg_own&order=asc`)).json<ConversationItemList>();
    expect([page.data, page.has_more]).toEqual([all.slice(2), false]);
    expect(faultOf(await send('GET', `/${id}/items?after=none`))[1]).toBe('store.cursor_unknown');
    expect((await send('GET', `/${id}/items/msg_own`)).json()).toEqual(list.data[0]);
    const twice = await send('POST', `/${id}/items`, { items: [{ role: 'user', content: 'x', id: 'msg_own' }] });
    expect(faultOf(twice)).toEqual([400, 'request.conflict', 'items']);
    expect((await send('DELETE', `/${id}/items/msg_own`)).json()).toMatchObject({ id, object: 'conversation' });
    for (const method of ['GET', 'DELETE'] as const)
      expect(faultOf(await send(method, `/${id}/items/msg_own`))).toEqual([404, 'request.not_found', 'item_id']);
    expect((await itemsOf(id)).map(({ type }) => type)).toEqual(['message', 'function_call', 'function_call_output']);
  });

  test('may refer to items of answers and of other conversations', async () => {
    const { output } = await respond();
    const from = await make({ items: [{ role: 'user', content: 'One.', id: 'msg_far' }] });
    const references = [{ type: 'item_reference', id: 'msg_far' }, ...output.map(({ id }) => ({ id }))];
    const id = await make({ items: references });
    expect(await itemsOf(id)).toMatchObject([{ id: 'msg_far', role: 'user' }, ...output]);
    expect(await itemsOf(from)).toHaveLength(1);
  });
});

describe('conversation of a response', () => {
  test('puts the items before the input and grows by both: the prompt is that of the conversation sent whole', async () => {
    const start = [{ role: 'developer', content: 'Be brief.' }];
    const id = await make({ items: start });
    inference.model.setReply(CALLS);
    const ask = [{ role: 'user', content: [{ type: 'input_text', text: 'Rome?' }] }];
    const first = await respond({ conversation: id, input: ask, tools: [TOOL], instructions: 'Be kind.' });
    expect(first.conversation).toEqual({ id });
    expect((await ended(first.id)).conversation).toEqual({ id });
    const call = first.output.find((item) => item.type === 'function_call');
    if (call?.type !== 'function_call') throw new Error('it calls');
    const result = { type: 'function_call_output', call_id: call.call_id, output: 'sun' };
    inference.model.setReply('Sun.');
    const second = await respond({ conversation: { id }, input: [result], tools: [TOOL] });
    const third = await respond({ conversation: id, input: 'And?', tools: [TOOL] });
    const continued = rendered();
    const whole = [...start, ...ask, ...first.output, result, ...second.output, { role: 'user', content: 'And?' }];
    await respond({ input: whole, tools: [TOOL] });
    expect(continued).toEqual(rendered());
    expect(third.usage?.input_tokens_details.cached_tokens).toBeGreaterThan(50);
    const items = await itemsOf(id);
    expect(items.filter((item) => first.output.some(({ id: own }) => own === item.id))).toEqual(first.output);
    expect(textsOf(items)).toEqual([
      'Be brief.',
      'Rome?',
      'reasoning',
      'I look.',
      'function_call',
      'function_call_output',
      'Sun.',
      'And?',
      'Sun.',
    ]);
    // The answer has its own copy of the prompt, with the same ids.
    const listed = await server.request('GET', `/v1/responses/${third.id}/input_items?order=asc&limit=100`);
    expect(listed.json<ConversationItemList>().data.map((item) => item.id)).toEqual(
      items.slice(0, -third.output.length).map((item) => item.id),
    );
  });

  test('grows with streams, answers in the background, cut ones and those with `store: false`', async () => {
    const id = await make();
    const fields = { conversation: id, input: 'One.' };
    const streamed = readNamedEvents<ResponseEvent>((await post({ ...fields, stream: true })).body);
    for (const event of streamed) if ('response' in event) expect(event.response.conversation).toEqual({ id });
    expect(await itemsOf(id)).toHaveLength(3);
    const queued = await respond({ ...fields, background: true });
    expect([queued.status, queued.conversation]).toEqual(['queued', { id }]);
    await ended(queued.id);
    expect(await itemsOf(id)).toHaveLength(6);
    await post({ ...fields, background: true, stream: true });
    expect(await itemsOf(id)).toHaveLength(9);
    const cut = await respond({ ...fields, max_output_tokens: 1 });
    expect(cut.status).toBe('incomplete');
    const unkept = await respond({ ...fields, store: false });
    expect([unkept.store, unkept.conversation]).toEqual([false, { id }]);
    const items = await itemsOf(id);
    expect(items.slice(-unkept.output.length)).toEqual(unkept.output);
    expect(items.filter((item) => cut.output.some((own) => own.id === item.id))).toHaveLength(cut.output.length);
  });

  test('gets nothing of an answer that failed or was cancelled', async () => {
    const id = await make();
    const fields = { conversation: id, input: 'One.' };
    const generate = inference.generate.bind(inference);
    vi.spyOn(inference, 'generate').mockImplementationOnce(() => {
      throw new Error('the engine is gone');
    });
    expect((await post(fields)).statusCode).toBe(500);
    vi.spyOn(inference, 'generate').mockImplementation(async function* (request, signal) {
      for await (const event of generate(request, signal)) {
        yield event;
        if (event.kind !== 'delta') continue;
        if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
        signal.throwIfAborted();
      }
    });
    const { id: cancelled } = await respond({ ...fields, background: true });
    const answer = await other.request('POST', `/v1/responses/${cancelled}/cancel`);
    expect(answer.json<Response>()).toMatchObject({ status: 'cancelled', conversation: { id } });
    await expect.poll(async () => (await server.store.keptAnswers.listOwn()).length).toBe(0);
    expect(await itemsOf(id)).toEqual([]);
  });

  test('two answers at once are two whole turns, in the order of their ends', async () => {
    const id = await make();
    const answers = await Promise.all(
      Array.from({ length: 6 }, (_, index) =>
        (index % 2 === 0 ? server : other).request('POST', '/v1/responses', {
          conversation: id,
          input: [
            { role: 'user', content: `One of ${index}.`, id: `msg_${index}` },
            { role: 'user', content: 'Two.' },
          ],
        }),
      ),
    );
    expect(answers.map(({ statusCode }) => statusCode)).toEqual(Array.from({ length: 6 }, () => 200));
    const items = await itemsOf(id);
    const turns = new Map(answers.map((answer, index) => [`msg_${index}`, answer.json<Response>().output]));
    for (let at = 0; at < items.length;) {
      const output = turns.get(items[at]!.id)!;
      turns.delete(items[at]!.id);
      expect(textsOf(items.slice(at + 1, at + 2))).toEqual(['Two.']);
      expect(items.slice(at + 2, at + 2 + output.length)).toEqual(output);
      at += 2 + output.length;
    }
    expect(turns.size).toBe(0);
  });

  test('that was deleted in the meantime does not end its answer', async () => {
    const id = await make();
    const find = server.store.keptAnswers.keep.bind(server.store.keptAnswers);
    vi.spyOn(server.store.keptAnswers, 'keep').mockImplementationOnce(async (...parameters) => {
      await server.store.conversations.delete(parameters[1]!.conversation);
      return await find(...parameters);
    });
    const answer = await respond({ conversation: id });
    expect([answer.status, answer.store]).toEqual(['completed', true]);
    expect((await send('GET', `/${id}`)).statusCode).toBe(404);
  });

  test('that the store cannot save is reported in the answer', async () => {
    const id = await make();
    vi.spyOn(server.store.keptAnswers, 'keep').mockRejectedValueOnce(new Error('the disk is full'));
    expect(await respond({ conversation: id })).toMatchObject({
      status: 'completed',
      store: false,
      conversation: null,
    });
    vi.spyOn(server.store.conversations, 'append').mockRejectedValueOnce(new Error('the disk is full'));
    expect(await respond({ conversation: id, store: false })).toMatchObject({ store: false, conversation: null });
    expect(await itemsOf(id)).toEqual([]);
  });

  test('gets the turn once while the database is busy or away for a moment', async () => {
    const { conversations, keptAnswers } = server.store;
    for (const store of [true, false]) {
      const id = await make();
      const [owner, write] = store ? [keptAnswers, 'keep' as const] : [conversations, 'append' as const];
      const original = (owner as unknown as Record<string, (...parameters: unknown[]) => Promise<unknown>>)[write]!;
      vi.spyOn(owner as typeof keptAnswers, write as 'keep')
        .mockRejectedValueOnce(new StoreError('store.busy', 'busy'))
        .mockImplementationOnce(async (...parameters) => {
          await original.apply(owner, parameters);
          throw new StoreError('store.unavailable', 'the connection ended at the commit');
        });
      const answer = await respond({ conversation: id, store });
      expect(answer).toMatchObject({ store, conversation: { id } });
      expect((await itemsOf(id)).map((item) => item.id).slice(1)).toEqual(answer.output.map((item) => item.id));
      if (store) expect((await server.request('GET', `/v1/responses/${answer.id}`)).statusCode).toBe(200);
    }
  });

  test('gets nothing if the client leaves before the write', async () => {
    const listening = await TestServer.startOn(inference);
    try {
      const url = await listening.app.listen({ port: 0, host: '127.0.0.1' });
      const { id } = (await listening.request('POST', '/v1/conversations', {})).json<ConversationObject>();
      const client = new AbortController();
      const ended = Promise.withResolvers<void>();
      const generate = inference.generate.bind(inference);
      vi.spyOn(inference, 'generate').mockImplementationOnce(async function* (request, signal) {
        try {
          yield* generate(request, signal);
        } finally {
          client.abort();
          if (!signal.aborted)
            await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
          ended.resolve();
        }
      });
      const answer = fetch(`${url}/v1/responses`, {
        method: 'POST',
        headers: { authorization: `Bearer ${listening.key}`, 'content-type': 'application/json' },
        body: JSON.stringify({ input: 'Hello', conversation: id }),
        signal: client.signal,
      });
      await expect(answer.then((response) => response.text())).rejects.toThrow('abort');
      await ended.promise;
      await new Promise((resolve) => setTimeout(resolve, 100));
      const items = await listening.request('GET', `/v1/conversations/${id}/items`);
      expect(items.json<ConversationItemList>().data).toEqual([]);
    } finally {
      await listening.close();
    }
  });

  test('is counted', async () => {
    const id = await make({ items: [{ role: 'user', content: 'One.' }] });
    const fields = { conversation: id, input: 'Two.' };
    const count = await server.request('POST', '/v1/responses/input_tokens', fields);
    const answer = await respond(fields);
    expect(count.json()).toEqual({ object: 'response.input_tokens', input_tokens: answer.usage?.input_tokens });
    expect(await itemsOf(id)).toHaveLength(4);
  });

  test.each([undefined, null])('is continued by itself if `input` is %s', async (input) => {
    const id = await make({ items: [{ role: 'user', content: 'One.' }] });
    const count = await server.request('POST', '/v1/responses/input_tokens', { conversation: id, input });
    const answer = await respond({ conversation: id, input });
    expect(count.json()).toMatchObject({ input_tokens: answer.usage?.input_tokens });
    expect(textsOf(await itemsOf(id))).toEqual(['One.', 'reasoning', 'Hello to you.']);
    const next = await respond({ previous_response_id: answer.id, input });
    expect(next.status).toBe('completed');
    for (const path of ['/v1/responses', '/v1/responses/input_tokens']) {
      const refused = await server.request('POST', path, { input });
      expect([faultOf(refused), refused.body]).toEqual([
        [400, 'request.invalid', 'input'],
        expect.stringContaining('Field required'),
      ]);
    }
  });

  test('is refused with `previous_response_id`, with items that it has, and above its limits', async () => {
    const id = await make({ items: [{ role: 'user', content: 'One.', id: 'msg_1' }] });
    const first = await respond();
    for (const path of ['/v1/responses', '/v1/responses/input_tokens'])
      expect(
        faultOf(await server.request('POST', path, { input: 'x', conversation: id, previous_response_id: first.id })),
      ).toEqual([400, 'request.conflict', 'conversation']);
    for (const item of [
      { role: 'user', content: 'x', id: 'msg_1' },
      { type: 'item_reference', id: 'msg_1' },
    ])
      expect(faultOf(await post({ conversation: id, input: [item] }))).toEqual([400, 'request.conflict', 'input.0.id']);
  });

  test('is refused above its limits', async () => {
    const small = await TestServer.startOn(inference, { chatBodyBytes: 2000 });
    try {
      const item = { role: 'user', content: 'x'.repeat(1000) };
      const { id } = (await small.request('POST', '/v1/conversations', { items: [item] })).json<ConversationObject>();
      const ask = () => small.request('POST', '/v1/responses', { conversation: id, input: 'x' });
      const add = () => small.request('POST', `/v1/conversations/${id}/items`, { items: [item] });
      expect((await ask()).statusCode).toBe(200);
      const { limits } = small.store.conversations;
      limits.maxItems = 4;
      expect(faultOf(await add())).toEqual([400, 'request.conflict', 'items']);
      expect(faultOf(await ask())).toEqual([400, 'request.conflict', 'conversation']);
      limits.maxItems = 5;
      expect((await add()).statusCode).toBe(200);
      expect(faultOf(await ask())).toEqual([413, 'request.body_too_large', 'conversation']);
    } finally {
      await small.close();
    }
  });
});

test('reads of kept texts count in the memory of their key until they have ended', async () => {
  const text = 'x'.repeat(100_000);
  const id = await make({ items: [{ role: 'user', content: text, id: 'msg_1' }] });
  const { id: answer } = await respond({ input: [{ role: 'user', content: text.slice(0, 1000) }] });
  for (const [path, numBytes] of [
    [`/v1/conversations/${id}/items`, 100_000],
    [`/v1/conversations/${id}/items/msg_1`, 100_000],
    [`/v1/responses/${answer}/input_items`, 1000],
    [`/v1/responses/${answer}`, 500],
  ] as const) {
    const take = vi.spyOn(ByteBudget.prototype, 'take');
    expect((await server.request('GET', path)).statusCode).toBe(200);
    expect(
      take.mock.calls.reduce((sum, [, bytes]) => sum + bytes, 0),
      path,
    ).toBeGreaterThan(numBytes);
    await expect.poll(() => take.mock.contexts.every((budget) => (budget as ByteBudget).isWhole)).toBe(true);
    take.mockRestore();
  }
});

describe('a service that keeps no answers', () => {
  test('refuses conversations by name', async () => {
    const plain = await TestServer.startOn(inference, {}, null, { keepsAnswers: false });
    try {
      const ask = { input: 'Hello', conversation: 'conv_1' };
      for (const path of ['/v1/responses', '/v1/responses/input_tokens'])
        expect(faultOf(await plain.request('POST', path, ask))).toEqual([400, 'request.unsupported', 'conversation']);
      const scope = { entityId: (await plain.store.keys.ensureEntity('acme')).id, project: '' };
      await plain.store.conversations.create({ ...scope, id: 'conv_1', metadata: '{}', items: [] });
      for (const [path, body] of [
        ['', {}],
        ['/conv_1', { metadata: {} }],
        ['/conv_1/items', { items: [] }],
      ] as const) {
        const { error } = (await plain.request('POST', `/v1/conversations${path}`, body)).json<ErrorBody>();
        expect([error.code, error.message]).toEqual([
          'request.unsupported',
          expect.stringContaining('--store-responses off'),
        ]);
      }
      for (const [method, path] of [
        ['GET', ''],
        ['GET', '/items'],
        ['DELETE', ''],
      ] as const)
        expect((await plain.request(method, `/v1/conversations/conv_1${path}`)).statusCode).toBe(200);
    } finally {
      await plain.close();
    }
  });
});

test('/metrics counts conversations', async () => {
  const metered = await TestServer.startOn(inference);
  try {
    await metered.request('POST', '/v1/conversations', {});
    const text = (await metered.request('GET', '/metrics')).body;
    expect(text).toMatch(/^trainyard_conversations\{[^}]*\} 1$/m);
    expect(Number(/^trainyard_conversation_bytes\{[^}]*\} (\d+)$/m.exec(text)?.[1])).toBeGreaterThanOrEqual(600);
  } finally {
    await metered.close();
  }
});
