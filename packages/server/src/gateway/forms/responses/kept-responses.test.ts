import type { ErrorBody, InputItemPage, Response, ResponseEvent } from '@trainyard/protocol';
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';

import { ByteBudget } from '../../bodies/byte-budget.ts';
import { ScriptedEngineInference } from '../../../testing/scripted-engine.ts';
import { readNamedEvents, TestServer } from '../../../testing/test-server.ts';

const TOOL = { type: 'function', name: 'weather', parameters: { type: 'object', properties: { city: {} } } };
const CALLS =
  '<think>I must look.</think>I look.\n<tool_call>\n{"name": "weather", "arguments": {"city": "Rome"}}\n</tool_call>';

let inference: ScriptedEngineInference;
let server: TestServer<ScriptedEngineInference>;
let other: string;
beforeAll(async () => {
  inference = await ScriptedEngineInference.open({ template: 'thinking', contextLength: 2048 });
  server = await TestServer.startOn(inference);
  other = await server.makeKey('other', ['inference']);
});
beforeEach(() => inference.model.setReply('<think>Hm.</think>Hello to you.'));
afterAll(async () => {
  await server.close();
  inference.close();
});

const post = (fields: Record<string, unknown>, headers = {}) =>
  server.request('POST', '/v1/responses', { input: 'Hello', ...fields }, headers);

async function respond(fields: Record<string, unknown> = {}, headers = {}): Promise<Response> {
  const response = await post(fields, headers);
  if (response.statusCode !== 200) throw new Error(response.body);
  return response.json<Response>();
}

const read = (id: string, headers = {}) => server.request('GET', `/v1/responses/${id}`, undefined, headers);
const rendered = () => (inference.lastRequest.prompt.kind === 'chat' ? inference.lastRequest.prompt.messages : []);

async function itemsOf(id: string, query = 'order=asc'): Promise<InputItemPage> {
  const response = await server.request('GET', `/v1/responses/${id}/input_items?${query}`);
  if (response.statusCode !== 200) throw new Error(response.body);
  return response.json<InputItemPage>();
}

describe('a kept answer', () => {
  test('is read as it was answered, whole and streamed, until it is deleted', async () => {
    const whole = await post({});
    const { id, store } = whole.json<Response>();
    expect(store).toBe(true);
    expect((await read(id)).body).toBe(whole.body);
    const last = readNamedEvents<ResponseEvent>((await post({ stream: true })).body).at(-1);
    if (last?.type !== 'response.completed') throw new Error('it completes');
    expect((await read(last.response.id)).json()).toEqual(last.response);
    const deleted = await server.request('DELETE', `/v1/responses/${id}`);
    expect(deleted.json()).toEqual({ id, object: 'response', deleted: true });
    for (const answer of [await read(id), await server.request('DELETE', `/v1/responses/${id}`)])
      expect([answer.statusCode, answer.json<ErrorBody>().error]).toMatchObject([
        404,
        { code: 'previous_response_not_found', param: 'response_id', type: 'invalid_request_error' },
      ]);
  });

  test('is not there with `store: false`, which may continue a kept one', async () => {
    const first = await respond();
    const second = await respond({ store: false, previous_response_id: first.id });
    expect([second.store, second.previous_response_id]).toEqual([false, first.id]);
    expect((await read(second.id)).statusCode).toBe(404);
    expect(rendered()).toHaveLength(3);
  });

  test('is unknown to other owners and other projects', async () => {
    const { id } = await respond({}, { 'openai-project': 'team/one' });
    const strangers = [
      { authorization: `Bearer ${other}`, 'openai-project': 'team/one' },
      { 'openai-project': 'team/two' },
      {},
    ];
    for (const headers of strangers) {
      expect((await read(id, headers)).statusCode).toBe(404);
      expect((await server.request('DELETE', `/v1/responses/${id}`, undefined, headers)).statusCode).toBe(404);
      const next = await post({ previous_response_id: id }, headers);
      expect([next.statusCode, next.json<ErrorBody>().error]).toMatchObject([
        400,
        { code: 'previous_response_not_found', param: 'previous_response_id' },
      ]);
    }
    const colleague = await server.makeKey('acme', ['inference']);
    const own = { authorization: `Bearer ${colleague}`, 'openai-project': 'team/one' };
    expect((await read(id, own)).statusCode).toBe(200);
  });

  test('that the store cannot save is answered, with a note', async () => {
    vi.spyOn(server.store.keptAnswers, 'keep').mockRejectedValueOnce(new Error('the disk is full'));
    const answer = await respond();
    expect([answer.store, answer.status]).toEqual([false, 'completed']);
    expect(server.logged.at(-1)).toContain(`the answer ${answer.id} is not kept: the disk is full`);
  });

  test('goes with its model', async () => {
    const modelId = await server.makeModel('short-lived');
    const { id } = await respond({ model: 'acme/demo/short-lived' });
    expect((await read(id)).statusCode).toBe(200);
    await server.store.models.delete(modelId);
    expect((await read(id)).statusCode).toBe(404);
  });
});

describe('previous_response_id', () => {
  test('puts the conversation before the input: the prompt is that of the conversation sent whole', async () => {
    inference.model.setReply(CALLS);
    const ask = [{ role: 'user', content: [{ type: 'input_text', text: 'Rome?' }] }];
    const first = await respond({ input: ask, tools: [TOOL], instructions: 'Be brief.' });
    const call = first.output.find((item) => item.type === 'function_call');
    if (call?.type !== 'function_call') throw new Error('it calls');
    const result = { type: 'function_call_output', call_id: call.call_id, output: 'sun' };
    inference.model.setReply('Sun.');
    const second = await respond({ input: [result], previous_response_id: first.id, tools: [TOOL] });
    const third = await respond({ previous_response_id: second.id, input: 'And?', tools: [TOOL] });
    const continued = rendered();
    await respond({
      input: [...ask, ...first.output, result, ...second.output, { role: 'user', content: 'And?' }],
      tools: [TOOL],
    });
    expect(continued).toEqual(rendered());
    // Instructions apply to one request.
    expect(continued.map(({ role }) => role)).toEqual(['user', 'assistant', 'tool', 'assistant', 'user']);
    expect(third.usage?.input_tokens_details.cached_tokens).toBeGreaterThan(50);
  });

  test('is counted, and may be named twice', async () => {
    const first = await respond({ input: 'One.' });
    const fields = { input: 'Two.', previous_response_id: first.id };
    const [one, two] = [await respond(fields), await respond(fields)];
    expect(one.usage?.input_tokens).toBe(two.usage?.input_tokens);
    const count = await server.request('POST', '/v1/responses/input_tokens', fields);
    expect(count.json()).toEqual({ object: 'response.input_tokens', input_tokens: one.usage?.input_tokens });
  });

  test('a conversation above the limit of a body is refused', async () => {
    const { id } = await respond();
    const small = await TestServer.startOn(inference, { chatBodyBytes: 1000 }, null, {});
    try {
      const scope = { entityId: (await small.store.keys.ensureEntity('acme')).id, project: '' };
      const kept = await server.store.keptAnswers.findWhole(
        { entityId: (await server.store.keys.ensureEntity('acme')).id, project: '' },
        id,
      );
      if (kept === null) throw new Error('it is kept');
      await small.store.keptAnswers.keep({
        ...kept,
        ...scope,
        keyId: 'k',
        modelId: null,
        status: 'completed',
        itemIds: [],
      });
      const next = await small.request('POST', '/v1/responses', { input: 'x', previous_response_id: id });
      expect([next.statusCode, next.json<ErrorBody>().error.param]).toEqual([413, 'previous_response_id']);
    } finally {
      await small.close();
    }
  });
});

describe('a reference to an item', () => {
  test('is the item of a kept answer, however it is written', async () => {
    const { output } = await respond({ input: 'Hello' });
    for (const reference of output.map(({ id }) => [{ type: 'item_reference', id }, { id }, { id, type: null }])[0] ??
      []) {
      await respond({
        input: [
          { role: 'user', content: 'Hello' },
          reference,
          { id: output[1]?.id },
          { role: 'user', content: 'And?' },
        ],
      });
      expect(rendered()[1]).toMatchObject({
        role: 'assistant',
        reasoning: 'Hm.',
        content: [{ text: 'Hello to you.' }],
      });
    }
  });

  test('to an unknown item, one of another owner, or one that was deleted is 404', async () => {
    const { id, output } = await respond();
    const ask = { input: [{ type: 'item_reference', id: output[0]?.id }] };
    const stranger = await post(ask, { authorization: `Bearer ${other}` });
    await server.request('DELETE', `/v1/responses/${id}`);
    for (const answer of [stranger, await post(ask), await post({ input: [{ type: 'item_reference', id: 'x' }] })])
      expect([answer.statusCode, answer.json<ErrorBody>().error]).toMatchObject([
        404,
        { code: 'request.not_found', param: 'input.0.id' },
      ]);
  });
});

describe('many references', () => {
  const parts = { requests: new ByteBudget(20_000), uploads: new ByteBudget(1) };
  let small: TestServer<ScriptedEngineInference>;
  beforeAll(async () => {
    small = await TestServer.startOn(inference, { chatBodyBytes: 100_000 }, null, { bodyBudgets: parts });
  });
  afterAll(() => small.close());
  const ask = (input: unknown) => small.request('POST', '/v1/responses', { input });
  const long = async () => {
    inference.model.setReply('A long answer. '.repeat(60));
    const { output } = (await ask('Hello')).json<Response>();
    return output.map(({ id }) => ({ type: 'item_reference', id }));
  };

  test('to different items are refused above a number', async () => {
    const answer = await ask(Array.from({ length: 1025 }, (_, index) => ({ id: `msg_${index}` })));
    const { error } = answer.json<ErrorBody>();
    expect([answer.statusCode, error.param, error.message]).toEqual([
      400,
      'input',
      expect.stringMatching(/1025 items.*limit is 1024/),
    ]);
  });

  test('count with their expanded size each time; each is looked up once', async () => {
    const [reference] = await long();
    const find = vi.spyOn(small.store.keptAnswers, 'findItem');
    const answer = await ask(Array.from({ length: 200 }, () => reference));
    expect([answer.statusCode, answer.json<ErrorBody>().error.code]).toEqual([413, 'request.body_too_large']);
    expect(find).toHaveBeenCalledTimes(1);
    find.mockRestore();
  });

  test('wait for room in memory before they are unpacked', async () => {
    const [reference] = await long();
    // The reserve, and each time half of the rest.
    const blockers = [1_000_000, 10_000, 5_000, 2_500, 1_250, 625].map((numBytes, index) => {
      const hold = parts.requests.open(String(index));
      expect(hold.grow(numBytes)).toBe(true);
      return hold;
    });
    let isAnswered = false;
    const answer = ask([{ role: 'user', content: 'x' }, reference]).then((sent) => {
      isAnswered = true;
      return sent;
    });
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect(isAnswered).toBe(false);
    for (const hold of blockers) hold.giveBack();
    expect((await answer).statusCode).toBe(200);
    await expect.poll(() => parts.requests.isWhole).toBe(true);
  });
});

describe('input_items', () => {
  test('are the items of the prompt, the newest first unless asked otherwise, in pages', async () => {
    const first = await respond({
      input: [
        { role: 'developer', content: 'Be brief.' },
        { role: 'user', content: 'One.' },
      ],
    });
    const second = await respond({ input: 'Two.', previous_response_id: first.id });
    const { data } = await itemsOf(second.id);
    expect(data).toMatchObject([
      { type: 'message', role: 'developer', content: [{ type: 'input_text', text: 'Be brief.' }] },
      { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'One.' }] },
      ...first.output,
      { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'Two.' }] },
    ]);
    expect(new Set(data.map(({ id }) => id)).size).toBe(data.length);
    const seen: unknown[] = [];
    let page = await itemsOf(second.id, 'limit=2');
    for (;;) {
      seen.push(...page.data);
      if (!page.has_more) break;
      page = await itemsOf(second.id, `limit=2&after=${page.last_id ?? ''}`);
    }
    expect(seen).toEqual(data.toReversed());
    const missed = await server.request('GET', `/v1/responses/${second.id}/input_items?after=none`);
    expect(missed.json<ErrorBody>().error.code).toBe('store.cursor_unknown');
    expect((await server.request('GET', '/v1/responses/none/input_items')).statusCode).toBe(404);
  });
});

describe('a service that keeps no answers', () => {
  test('takes `store: true` and keeps nothing', async () => {
    const plain = await TestServer.startOn(inference, {}, null, { keepsAnswers: false });
    try {
      const answer = await plain.request('POST', '/v1/responses', { input: 'Hello', store: true });
      const { id, store } = answer.json<Response>();
      expect([answer.statusCode, store]).toEqual([200, false]);
      expect((await plain.request('GET', `/v1/responses/${id}`)).statusCode).toBe(404);
      const next = await plain.request('POST', '/v1/responses', { input: 'Hello', previous_response_id: id });
      expect(next.json<ErrorBody>().error.code).toBe('previous_response_not_found');
    } finally {
      await plain.close();
    }
  });
});

test('/metrics counts kept answers', async () => {
  const metered = await TestServer.startOn(inference);
  try {
    await metered.request('POST', '/v1/responses', { input: 'Hello' });
    const text = (await metered.request('GET', '/metrics')).body;
    expect(text).toMatch(/^trainyard_kept_answers\{[^}]*\} 1$/m);
    expect(Number(/^trainyard_kept_answer_bytes\{[^}]*\} (\d+)$/m.exec(text)?.[1])).toBeGreaterThan(600);
    expect(text).toMatch(/^trainyard_answers_in_background\{[^}]*\} 0$/m);
  } finally {
    await metered.close();
  }
});
