import type { ErrorBody, Response, ResponseEvent } from '@trainyard/protocol';
import { type LiveAnswer, StoreError } from '@trainyard/store';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';

import { ByteBudget } from '../../bodies/byte-budget.ts';
import { ScriptedEngineInference } from '../../../testing/scripted-engine.ts';
import { readNamedEvents, TestServer } from '../../../testing/test-server.ts';

let inference: ScriptedEngineInference;
let server: TestServer<ScriptedEngineInference>;
/** Another process of the same service. */
let other: TestServer;
beforeAll(async () => {
  inference = await ScriptedEngineInference.open({ template: 'thinking', contextLength: 2048 });
  server = await TestServer.startOn(inference);
  other = await server.startAnother('the other process');
});
beforeEach(() => inference.model.setReply('<think>Hm.</think>Hello to you.'));
afterEach(async () => {
  vi.restoreAllMocks();
  // A failed test must not leave the engine held for the next ones.
  for (const answer of await server.store.keptAnswers.listOwn())
    await server.store.keptAnswers.delete(answer, answer.id);
  await vi.waitUntil(() => numHeld === 0, 60_000);
});
afterAll(async () => {
  await other.close();
  await server.close();
  inference.close();
});

const post = (fields: Record<string, unknown>, headers = {}) =>
  server.request('POST', '/v1/responses', { input: 'Hello', background: true, ...fields }, headers);

async function begin(fields: Record<string, unknown> = {}, headers = {}): Promise<Response> {
  const response = await post(fields, headers);
  if (response.statusCode !== 200) throw new Error(response.body);
  return response.json<Response>();
}

async function read(id: string, from: TestServer<never> | TestServer = server as never): Promise<Response> {
  const response = await from.request('GET', `/v1/responses/${id}`);
  if (response.statusCode !== 200) throw new Error(response.body);
  return response.json<Response>();
}

/** Id of the newest answer that the first process computes. */
async function idOfOwn(): Promise<string> {
  let id = '';
  await expect.poll(async () => (id = (await server.store.keptAnswers.listOwn()).at(-1)?.id ?? '')).not.toBe('');
  return id;
}

async function ended(id: string): Promise<Response> {
  await expect.poll(async () => (await read(id)).status).not.toMatch(/queued|in_progress/);
  return await read(id);
}

const cancel = (id: string, at: { request: TestServer['request'] } = server as never) =>
  at.request('POST', `/v1/responses/${id}/cancel`);

let numHeld = 0;
/** Makes the next reply stop after its first output until it is aborted. */
function holdNextReply(): void {
  const generate = inference.generate.bind(inference);
  vi.spyOn(inference, 'generate').mockImplementationOnce(async function* (request, signal) {
    numHeld += 1;
    try {
      for await (const event of generate(request, signal)) {
        yield event;
        if (event.kind !== 'delta') continue;
        if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
        signal.throwIfAborted();
      }
    } finally {
      numHeld -= 1;
    }
  });
}

describe('an answer in the background', () => {
  test('is queued at once, ends as one that was waited for, and is counted once', async () => {
    const usage = async () => {
      const totals = await server.store.usage.sum({});
      return totals.reduce(
        (sum, { numRequests, completionTokens }) => [sum[0]! + numRequests, sum[1]! + completionTokens],
        [0, 0],
      );
    };
    const before = await usage();
    const queued = await begin({ metadata: { a: 'b' } });
    expect(queued).toMatchObject({ status: 'queued', background: true, store: true, output: [], usage: null });
    const { id, output, ...answer } = await ended(queued.id);
    expect(answer).toMatchObject({ status: 'completed', background: true, metadata: { a: 'b' } });
    const after = await usage();
    expect([after[0]! - before[0]!, after[1]! - before[1]!]).toEqual([1, answer.usage?.output_tokens]);
    const plain = (await post({ background: false })).json<Response>();
    const shape = (items: Response['output']) => items.map((item) => ({ ...item, id: '' }));
    expect(shape(output)).toEqual(shape(plain.output));
    const next = (await post({ background: false, input: 'And?', previous_response_id: id })).json<Response>();
    expect(next.previous_response_id).toBe(id);
  });

  test('that fails has the reason', async () => {
    const { id } = await begin({ input: 'a '.repeat(3000) });
    expect(await ended(id)).toMatchObject({ status: 'failed', error: { code: 'context_length_exceeded' } });
  });

  test.each([
    [{ store: false }, 'background', 400],
    [{ model: 'none' }, 'model', 404],
    [{ max_output_tokens: 5000 }, 'max_output_tokens', 400],
  ])('%j is refused at once', async (fields, param, status) => {
    const response = await post(fields);
    expect([response.statusCode, response.json<ErrorBody>().error.param]).toEqual([status, param]);
  });

  test('is cancelled by any process, once, and computed no further', async () => {
    for (const at of [server, other] as const) {
      holdNextReply();
      const { id } = await begin();
      await expect.poll(async () => (await read(id)).status).toBe('in_progress');
      const continued = await post({ background: false, previous_response_id: id });
      expect([continued.statusCode, continued.json<ErrorBody>().error.param]).toEqual([400, 'previous_response_id']);
      for (let times = 0; times < 2; times += 1)
        expect((await cancel(id, at as never)).json()).toMatchObject({ id, status: 'cancelled', output: [] });
      await expect.poll(() => numHeld).toBe(0);
      expect(await read(id)).toMatchObject({ status: 'cancelled' });
    }
  });

  test('a delete ends it too', async () => {
    holdNextReply();
    const { id } = await begin();
    await server.request('DELETE', `/v1/responses/${id}`);
    await expect.poll(() => numHeld).toBe(0);
    expect((await server.request('GET', `/v1/responses/${id}`)).statusCode).toBe(404);
  });

  test('ends with its key', async () => {
    holdNextReply();
    const entity = await server.store.keys.ensureEntity('acme');
    const key = await server.store.keys.create({ entityId: entity.id, name: 'short', scopes: ['inference'] });
    const { id } = await begin({}, { authorization: `Bearer ${key.secret}` });
    await server.store.keys.revoke(key.id);
    expect(await ended(id)).toMatchObject({ status: 'failed', error: { code: 'request.unauthenticated' } });
  });

  test('one that was waited for, an ended one and an unknown one are not cancelled', async () => {
    const plain = (await post({ background: false })).json<Response>();
    const refused = await cancel(plain.id);
    expect([refused.statusCode, refused.json<ErrorBody>().error.message]).toEqual([
      400,
      expect.stringContaining('Cannot cancel a synchronous response'),
    ]);
    const { id } = await begin();
    const done = await ended(id);
    expect((await cancel(id)).json()).toEqual(done);
    expect((await cancel('resp_none')).statusCode).toBe(404);
  });

  test('of a process that is gone reads as failed, not as in progress', async () => {
    const scope = { entityId: (await server.store.keys.ensureEntity('acme')).id, project: '' };
    const { id } = await ended((await begin()).id);
    const found = await server.store.keptAnswers.findWhole(scope, id);
    if (found === null) throw new Error('it is kept');
    await other.store.keptAnswers.begin({
      ...found,
      id: 'resp_lost',
      status: 'in_progress',
      answer: JSON.stringify({ ...(JSON.parse(found.answer) as Response), id: 'resp_lost', status: 'in_progress' }),
      keyId: 'key',
      modelId: null,
      itemIds: [],
      leaseMs: 30_000,
    });
    expect((await read('resp_lost')).status).toBe('in_progress');
    await other.store.recoverAfterRestart();
    expect(await read('resp_lost')).toMatchObject({ status: 'failed', error: { code: 'server.unavailable' } });
  });

  test('a clock that jumps loses none: its process computes it, or is watched for a while', async () => {
    const now = performance.now.bind(performance);
    const later = vi.spyOn(performance, 'now');
    const { keptAnswers } = server.store;
    const renew = keptAnswers.renew.bind(keptAnswers);
    // The lease ends only as the test says: the process that computes the answer renews nothing.
    vi.spyOn(keptAnswers, 'renew').mockResolvedValue();
    const setLease = (answer: LiveAnswer, leaseMs: number) => renew([answer], leaseMs);
    holdNextReply();
    const { id } = await begin();
    const [own] = await server.store.keptAnswers.listOwn();
    if (own === undefined) throw new Error('it is computed');
    await setLease(own, -1_000);
    expect((await read(id)).status).toMatch(/queued|in_progress/);
    expect((await read(id, other)).status).toMatch(/queued|in_progress/);
    const stopped = now();
    later.mockImplementation(() => stopped);
    await setLease(own, -500);
    expect((await read(id, other)).status).toMatch(/queued|in_progress/);
    later.mockImplementation(() => stopped + 9_000);
    expect((await read(id, other)).status).toMatch(/queued|in_progress/);
    expect((await read(id)).status).toMatch(/queued|in_progress/);
    later.mockImplementation(() => stopped + 12_001);
    expect(await read(id, other)).toMatchObject({ status: 'failed', error: { code: 'server.unavailable' } });
    await expect.poll(() => numHeld).toBe(0);
  });

  test('a row that nothing computes is not kept alive', async () => {
    const renew = vi.spyOn(server.store.keptAnswers, 'renew');
    const now = performance.now.bind(performance);
    // Later than any renewal that an earlier test's clock can have recorded.
    vi.spyOn(performance, 'now').mockImplementation(() => now() + 60_000);
    const orphan = await server.store.keptAnswers.begin({
      entityId: (await server.store.keys.ensureEntity('acme')).id,
      project: '',
      id: 'resp_orphan',
      status: 'queued',
      answer: '{}',
      keyId: 'key',
      modelId: null,
      itemIds: [],
      input: '[]',
      leaseMs: 30_000,
    });
    holdNextReply();
    const { id } = await begin();
    await expect.poll(() => renew.mock.calls.length).toBeGreaterThan(0);
    expect(renew.mock.calls.flatMap(([answers]) => answers.map((answer) => answer.id))).toEqual([id]);
    await cancel(id);
    await server.store.keptAnswers.delete(orphan as never, 'resp_orphan');
  });

  test('an id that no database holds is refused', async () => {
    for (const request_id of ['a\u0000', '\ud83d']) {
      const response = await post({ request_id });
      expect([response.statusCode, response.json<ErrorBody>().error.param]).toEqual([400, 'request_id']);
    }
  });

  test('its id is used again at once after a delete: the earlier one changes nothing of the later', async () => {
    holdNextReply();
    const headers = { 'x-request-id': 'again' };
    const { id } = await begin({}, headers);
    await expect.poll(() => numHeld).toBe(1);
    const earlier = server.request('DELETE', `/v1/responses/${id}`);
    await earlier;
    expect((await begin({}, headers)).id).toBe(id);
    expect(await ended(id)).toMatchObject({ status: 'completed' });
    await expect.poll(() => numHeld).toBe(0);
  });

  test('a moment without the database costs no answer', async () => {
    vi.spyOn(server.store.keptAnswers, 'update').mockRejectedValueOnce(new StoreError('store.unavailable', 'away'));
    expect(await ended((await begin()).id)).toMatchObject({ status: 'completed' });
  });

  test('is charged for its request body until it ends', async () => {
    const bodyBudgets = { requests: new ByteBudget(1_000_000), uploads: new ByteBudget(1) };
    const metered = await TestServer.startOn(inference, {}, null, { bodyBudgets });
    try {
      const ask = (fields: object) => metered.request('POST', '/v1/responses', { input: 'Hello', ...fields });
      const first = (await ask({})).json<Response>();
      holdNextReply();
      const { id } = (await ask({ background: true, previous_response_id: first.id })).json<Response>();
      await expect.poll(() => numHeld).toBe(1);
      expect(bodyBudgets.requests.isWhole).toBe(false);
      await cancel(id, metered as never);
      await expect.poll(() => bodyBudgets.requests.isWhole).toBe(true);
    } finally {
      await metered.close();
    }
  });

  test('is refused while answers in the background fill the room', async () => {
    vi.spyOn(server.store.keptAnswers, 'begin').mockResolvedValueOnce('full');
    const response = await post({});
    expect([response.statusCode, response.json<ErrorBody>().error.code]).toEqual([429, 'request.too_many']);
  });

  test('is refused if the store is full or absent, because its result could not be read', async () => {
    vi.spyOn(server.store.keptAnswers, 'begin').mockRejectedValueOnce(new Error('no room'));
    expect((await post({})).statusCode).toBe(500);
    await expect.poll(() => numHeld).toBe(0);
  });
});

describe('its stream', () => {
  const events = (body: string) => readNamedEvents<ResponseEvent>(body);
  const resumed = async (id: string, query: string, at: { request: TestServer['request'] } = server as never) =>
    events((await at.request('GET', `/v1/responses/${id}?stream=true${query}`)).body);

  test('has the events of one that is waited for, and is read again from any event, at any process', async () => {
    const whole = events((await post({ stream: true })).body);
    const last = whole.at(-1);
    if (last?.type !== 'response.completed') throw new Error('it completes');
    const { id } = last.response;
    expect(whole.map((event) => event.sequence_number)).toEqual(whole.map((_event, index) => index));
    const plain = events((await post({ background: false, stream: true })).body);
    expect(whole.map(({ type }) => type)).toEqual(plain.map(({ type }) => type));
    expect(await read(id)).toEqual(last.response);
    for (const at of [server, other] as never[]) {
      expect(await resumed(id, '', at)).toEqual(whole);
      expect(await resumed(id, '&starting_after=3', at)).toEqual(whole.slice(4));
      expect(await resumed(id, `&starting_after=${whole.length - 1}`, at)).toEqual([]);
    }
  });

  test('is read while it is computed, ends with a failure, and without an event when it is cancelled', async () => {
    const failed = events((await post({ stream: true, input: 'a '.repeat(3000) })).body);
    expect(failed.at(-1)).toMatchObject({ type: 'response.failed', response: { status: 'failed' } });
    expect(failed.filter(({ type }) => type === 'response.failed')).toHaveLength(1);
    holdNextReply();
    const streaming = post({ stream: true });
    const id = await idOfOwn();
    const elsewhere = resumed(id, '', other as never);
    await cancel(id);
    for (const seen of [events((await streaming).body), await elsewhere])
      expect(seen.every(({ type }) => type !== 'response.completed' && type !== 'response.failed')).toBe(true);
  });

  test.each([
    ['response.completed', 'Hello'],
    ['response.failed', 'a '.repeat(3000)],
  ])('emits %s with the state, never before it', async (type, input) => {
    const update = vi.spyOn(server.store.keptAnswers, 'update');
    const whole = events((await post({ stream: true, input })).body);
    expect(whole.at(-1)).toMatchObject({ type, sequence_number: whole.length - 1 });
    const told = update.mock.calls.map(([, { state, events: written }]) => [
      state?.status,
      written?.events.some((text) => text.includes(`"type":"${type}"`)) ?? false,
    ]);
    expect(told.filter(([, isTold]) => isTold)).toEqual([[type.replace('response.', ''), true]]);
  });

  test('is there from the start, and its end comes once', async () => {
    holdNextReply();
    const streaming = post({ stream: true });
    const id = await idOfOwn();
    const scope = { entityId: (await server.store.keys.ensureEntity('acme')).id, project: '', id };
    const [batch] = await other.store.keptAnswers.readEvents(scope, 0, 1);
    expect(batch?.events.map((text) => JSON.parse(text) as ResponseEvent)).toMatchObject([
      { type: 'response.created', sequence_number: 0, response: { status: 'queued' } },
    ]);
    await cancel(id);
    await streaming;
    const failed = events((await post({ stream: true, input: 'a '.repeat(3000) })).body);
    const last = failed.at(-1);
    if (last?.type !== 'response.failed') throw new Error('it fails');
    expect(await resumed(last.response.id, `&starting_after=${last.sequence_number}`)).toEqual([]);
  });

  test('waits for an absent database after it has started, and is refused before', async () => {
    const away = new StoreError('store.unavailable', 'away');
    const whole = events((await post({ stream: true })).body);
    const last = whole.at(-1);
    if (last?.type !== 'response.completed') throw new Error('it completes');
    const { id } = last.response;
    const reads = vi.spyOn(server.store.keptAnswers, 'readEvents').mockRejectedValueOnce(away);
    const refused = await server.request('GET', `/v1/responses/${id}?stream=true`);
    expect(refused.statusCode).toBe(503);
    holdNextReply();
    const streaming = post({ stream: true });
    const own = await idOfOwn();
    const reading = resumed(own, '');
    await expect.poll(() => numHeld).toBe(1);
    const numReads = reads.mock.calls.length;
    await expect.poll(() => reads.mock.calls.length).toBeGreaterThan(numReads + 4);
    vi.spyOn(server.store.keptAnswers, 'status').mockRejectedValueOnce(away).mockRejectedValueOnce(away);
    await server.store.keptAnswers.end(
      { entityId: (await server.store.keys.ensureEntity('acme')).id, project: '', id: own },
      { status: 'cancelled', answer: JSON.stringify({ id: own, status: 'cancelled', output: [] }), itemIds: [] },
    );
    for (const seen of [events((await streaming).body), await reading]) {
      expect(seen.map((event) => event.sequence_number)).toEqual(seen.map((_event, index) => index));
      expect(seen.some((event) => (event as { type: string }).type === 'error')).toBe(false);
    }
    await expect.poll(() => numHeld).toBe(0);
  });

  test('is kept only if it was asked for', async () => {
    const { id } = await begin();
    await ended(id);
    const refused = await server.request('GET', `/v1/responses/${id}?stream=true`);
    expect([refused.statusCode, refused.json<ErrorBody>().error.param]).toEqual([400, 'stream']);
  });
});
