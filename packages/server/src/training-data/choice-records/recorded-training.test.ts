import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';

import type { ChatCompletion, ErrorBody, TrainingJobObject } from '@trainyard/protocol';
import type { ClaimedJob } from '@trainyard/store';

import { wireEvent } from '../../jobs/job-events.ts';
import { readTrajectoryGroups } from '../stored/trajectory-blob.ts';
import { TestServer } from '../../testing/test-server.ts';

// The first large body starts a thread.
vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

let server: TestServer;
let modelId: string;
let choice: ChatCompletion['choices'][number];
let drawn: ChatCompletion['choices'][number];
let drawnId: string;
/** Sampling as the engine reports it. */
const SAMPLING = {
  settings: { isMasked: true, temperature: 0.5 },
  trace: { logprobs: Float32Array.of(-0.1, 0, -0.3), kept: Uint8Array.of(1, 2, 5, 1, 0, 0) },
  lost: null,
};
beforeAll(async () => {
  server = await TestServer.start();
  modelId = await server.makeModel('agent');
  [choice] = (await server.chat({ model: 'agent' })).json<ChatCompletion>().choices as [typeof choice];
  const { script } = server.inference;
  server.inference.script = async function* (request, signal) {
    for await (const event of script(request, signal)) {
      const sampling = SAMPLING as unknown as NonNullable<Extract<typeof event, { kind: 'finished' }>['sampling']>;
      yield event.kind === 'finished' ? { ...event, sampling } : event;
    }
  };
  const answered = (await server.chat({ model: 'agent', n: 2 })).json<ChatCompletion>();
  drawn = answered.choices[1]!;
  drawnId = answered.id;
  server.inference.script = script;
});
afterAll(() => server.close());

const IDS = [5, 6, 2];
const LOGPROBS = Float32Array.of(-0.5, -0.6, -0.2);
const QUESTION = { role: 'user', content: 'hello' };

/** The choice as a client may store it. */
const kept = (fields: object = {}) => ({ ...choice, logprobs: null, token_ids: null, ...fields });

/** Below and above the size from which another thread parses. */
describe.each([
  ['a small body', ''],
  ['a large body', 'p'.repeat(1_500_000)],
])('%s', (_name, padding) => {
  async function submit(items: unknown[], headers: Record<string, string> = {}) {
    const trajectories = items.map((item, reward) => ({ reward, messages_and_choices: [QUESTION, item] }));
    const body = { model_id: modelId, trajectory_groups: [{ trajectories, logs: [padding] }] };
    return server.request('POST', '/v1/preview/training-jobs', body, headers);
  }

  /** Second items of the trajectories in the trainer's form, and the number of missing records. */
  async function trained(items: unknown[]) {
    const response = await submit(items);
    expect(response.statusCode, response.body.slice(0, 500)).toBe(200);
    const { id } = response.json<TrainingJobObject>();
    const [group] = await readTrajectoryGroups(server.blobs, `groups/${id}`, { keepsBareIds: false });
    const job = await server.store.jobs.get(id);
    const event = wireEvent({ kind: 'training_started', numGradientSteps: 1, data: {} }, job as ClaimedJob);
    return { read: group!.trajectories.map(({ histories }) => histories[0]!.items[1]!), data: event.data };
  }

  test('trains a choice by its record, with any of its fields missing', async () => {
    const texts = choice.logprobs!.content.map((entry) => ({ ...entry, token: 'x' }));
    const items = [
      kept(),
      { message: choice.message, finish_reason: 'stop', record_id: choice.record_id },
      { ...choice.message, record_id: choice.record_id },
      kept({ token_ids: IDS }),
      kept({ logprobs: { content: texts } }),
      kept({ logprobs: { content: choice.logprobs!.content.slice(0, 2) }, token_ids: IDS }),
      kept({ logprobs: { content: [] }, token_ids: [], prompt_token_ids: [] }),
    ];
    const { read, data } = await trained(items);
    for (const [index, item] of read.entries()) {
      if (item.kind !== 'choice') throw new Error(`item ${index} is not trained`);
      expect([...item.tokenIds]).toEqual(IDS);
      expect(item.logprobs).toEqual(LOGPROBS);
      expect([...item.promptTokenIds!]).toEqual([1, 2, 3]);
    }
    expect(data).toMatchObject({ num_unknown_records: 0 });
  });

  test('prefers the fields of the choice; its record only adds how it was drawn, and from which prompt', async () => {
    const behind = { ...choice, prompt_token_ids: [8] };
    const { read, data } = await trained([{ ...choice, record_id: 'x-0' }, choice, behind]);
    const expected = { kind: 'choice', tokenIds: Int32Array.from(IDS), logprobs: LOGPROBS };
    expect(read).toMatchObject([
      expected,
      { ...expected, sampling: null, promptTokenIds: Int32Array.of(1, 2, 3) },
      { ...expected, sampling: null, promptTokenIds: Int32Array.of(8) },
    ]);
    for (const field of ['sampling', 'promptTokenIds']) expect(read[0]).not.toHaveProperty(field);
    expect(data).toMatchObject({ num_unknown_records: 0 });
  });

  test('passes to the trainer how a choice was drawn, with or without its record', async () => {
    const items = [drawn, { ...drawn, logprobs: null, token_ids: null }, { ...drawn, token_ids: [5, 6, 3] }];
    items[2]!.logprobs = null;
    const { read } = await trained(items.slice(0, 2));
    for (const item of read) expect(item).toMatchObject({ sampling: SAMPLING, promptTokenIds: Int32Array.of(1, 2, 3) });
    const entries = drawn.logprobs!.content.map((entry) => ({ ...entry, token: 'token_id:9' }));
    const edited = { ...drawn, token_ids: [9, 9, 9], logprobs: { content: entries } };
    expect((await trained([edited])).read[0]).not.toHaveProperty('sampling');
  });

  test('finds the record of a choice with tokens by the id of the answer if a client dropped that of the record', async () => {
    const { record_id: _, ...bare } = drawn;
    const named = { ...bare, id: drawnId };
    const entries = drawn.logprobs!.content.map((entry) => ({ ...entry, token: 'token_id:9' }));
    const { read, data } = await trained([
      named,
      { ...named, index: 2 },
      { ...named, id: `chatcmpl-${'0'.repeat(32)}` },
      { ...named, id: 7 },
      { ...named, token_ids: [9, 9, 9], logprobs: { content: entries } },
      // Choices without their own tokens stay context: only a record that they name would train them.
      { ...named, token_ids: null, logprobs: null },
    ]);
    expect(read[0]).toMatchObject({ kind: 'choice', sampling: SAMPLING, promptTokenIds: Int32Array.of(1, 2, 3) });
    for (const item of read.slice(1)) expect(item).not.toHaveProperty('sampling');
    expect(read.at(-1)).toMatchObject({ kind: 'message' });
    expect(data).toMatchObject({ num_unknown_records: 0 });
  });

  test.each([{ 'x-request-id': 'a'.repeat(32) }, null])(
    'ids that a client chose, and may reuse, name no record (%o)',
    async (headers) => {
      const fields = { model: 'agent', ...(headers === null ? { request_id: 'b'.repeat(32) } : {}) };
      const said = async () => (await server.chat(fields, headers ?? {})).json<ChatCompletion>();
      const [first, second] = [await said(), await said()];
      expect(first.id).toBe(second.id);
      expect(first.choices[0]!.record_id).not.toBe(second.choices[0]!.record_id);
      const { record_id: _, ...bare } = first.choices[0]!;
      const { read } = await trained([{ ...bare, id: first.id }, first.choices[0]]);
      expect(read[0]).not.toHaveProperty('promptTokenIds');
      expect(read[1]).toMatchObject({ promptTokenIds: Int32Array.of(1, 2, 3) });
    },
  );

  test('counts records that are not there, of other entities and deleted models too, and reads the choice without', async () => {
    const doomed = await server.makeModel('doomed');
    const gone = (await server.chat({ model: 'doomed' })).json<ChatCompletion>().choices[0]!;
    await server.store.models.delete(doomed);
    const key = await server.makeKey('other', ['inference', 'training']);
    const headers = { authorization: `Bearer ${key}` };
    const body = { entity: null, project: 'p', name: 'theirs', base_model: 'tiny/base', return_existing: true };
    await server.request('POST', '/v1/preview/models', body, headers);
    const theirs = (await server.chat({ model: 'theirs' }, headers)).json<ChatCompletion>().choices[0]!;
    expect(theirs.record_id).toBeDefined();
    const items = ['never-0', 'x', gone.record_id, theirs.record_id].map((id) => kept({ record_id: id }));
    const { read, data } = await trained([...items, kept()]);
    expect(read.map(({ kind }) => kind)).toEqual(['message', 'message', 'message', 'message', 'choice']);
    expect(data).toMatchObject({ num_unknown_records: 4 });
  });

  test('is refused if a choice and its record contradict each other', async () => {
    const at = 'trajectory_groups.0.trajectories.0.messages_and_choices.1';
    const entry = (token: string) => ({ token, logprob: -1, bytes: [], top_logprobs: [] });
    const cases: [object, string][] = [
      [{ token_ids: [5, 7, 2] }, 'token_ids.1'],
      [{ token_ids: [5, 6] }, 'token_ids'],
      [{ token_ids: [5, 6, 2, 9] }, 'token_ids.3'],
      [{ prompt_token_ids: [1, 2] }, 'prompt_token_ids'],
      [{ token_ids: IDS, logprobs: { content: [entry('token_id:6')] } }, 'logprobs.content.0.token'],
      [{ record_id: 7 }, 'record_id'],
    ];
    for (const [fields, param] of cases) {
      const response = await submit([kept(fields)]);
      const { error } = response.json<ErrorBody>();
      expect([response.statusCode, error.param], error.message).toEqual([422, `${at}.${param}`]);
    }
  });

  test('reports records that cannot be looked up, and leaves no data', async () => {
    vi.spyOn(server.store.choiceRecords, 'find').mockRejectedValueOnce(new Error('the disk is on fire'));
    const numBlobs = (await server.blobs.listKeys()).length;
    const response = await submit([kept()]);
    expect([response.statusCode, response.json<ErrorBody>().error.code]).toEqual([500, 'internal']);
    expect((await server.blobs.listKeys()).length).toBe(numBlobs);
  });
});

test('a record that many choices name is kept once', async () => {
  const trajectories = Array.from({ length: 2000 }, (_, reward) => ({
    reward,
    messages_and_choices: [QUESTION, kept()],
  }));
  const body = { model_id: modelId, trajectory_groups: [{ trajectories }] };
  const response = await server.request('POST', '/v1/preview/training-jobs', body);
  const key = `groups/${response.json<TrainingJobObject>().id}`;
  expect(await Array.fromAsync(server.blobs.getJsonLines(key))).toHaveLength(2);
  const [group] = await readTrajectoryGroups(server.blobs, key, { keepsBareIds: false });
  const arrays = group!.trajectories.map(({ histories }) => histories[0]!.items[1] as { tokenIds: Int32Array });
  expect(new Set(arrays.map(({ tokenIds }) => tokenIds)).size).toBe(1);
});
