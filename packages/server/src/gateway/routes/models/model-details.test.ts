import type { ErrorBody, ListPage, ModelDetailsObject, ModelList } from '@trainyard/protocol';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { TestServer } from '../../../testing/test-server.ts';

let server: TestServer;
let rival: Record<string, string>;
beforeAll(async () => {
  server = await TestServer.start();
  rival = { authorization: `Bearer ${await server.makeKey('rival', ['inference', 'training'])}` };
});
afterAll(() => server.close());

const list = async (query = '', headers = {}) =>
  (await server.request('GET', `/v1/preview/models${query}`, undefined, headers)).json<ListPage<ModelDetailsObject>>();

test('a model has its latest checkpoint and its unfinished jobs', async () => {
  const id = await server.makeModel('agent', 'one');
  const fresh = (await server.request('GET', `/v1/preview/models/${id}`)).json<ModelDetailsObject>();
  expect(fresh).toMatchObject({
    id,
    run_id: id,
    entity: 'acme',
    project: 'one',
    name: 'agent',
    base_model: 'tiny/base',
    is_served: true,
    lora: { rank: 8 },
    latest_step: 0,
    num_checkpoints: 1,
    num_gradient_steps: 0,
    metrics: {},
    live_jobs: { queued: 0, running: 0, paused: 0 },
  });
  await server.addCheckpoint(id, 'a');
  await server.store.checkpoints.mergeMetrics(id, 1, { 'val/reward': 0.5 });
  const waiting = await server.store.jobs.enqueue({ modelId: id, kind: 'rl', config: {}, dataKey: 'groups/w' });
  await server.store.jobs.pause(waiting?.id ?? '');
  expect((await server.request('GET', `/v1/preview/models/${id}`)).json()).toMatchObject({
    latest_step: 1,
    num_checkpoints: 2,
    metrics: { 'val/reward': 0.5 },
    live_jobs: { queued: 0, running: 0, paused: 1 },
  });
  await server.store.checkpoints.delete(id, [0, 1]);
  expect((await server.request('GET', `/v1/preview/models/${id}`)).json()).toMatchObject({ latest_step: null });
});

test('models are listed a page at a time, by project, and those of others never', async () => {
  const ids = [];
  for (const name of ['a', 'b', 'c']) ids.push(await server.makeModel(name, 'list'));
  const first = await list('?project=list&limit=2');
  expect([first.data.map(({ id }) => id), first.has_more]).toEqual([ids.slice(0, 2), true]);
  const second = await list(`?project=list&limit=2&after=${first.last_id}`);
  expect([second.data.map(({ id }) => id), second.has_more]).toEqual([ids.slice(2), false]);
  expect((await list('?project=list&order=desc&limit=1')).data.map(({ id }) => id)).toEqual(ids.slice(2));
  expect((await list('', rival)).data).toEqual([]);
  expect((await list('?project=nothing')).data).toEqual([]);
  const [id = ''] = ids;
  const foreign = await server.request('GET', `/v1/preview/models/${id}`, undefined, rival);
  const unknown = await server.request('GET', '/v1/preview/models/unknown');
  for (const answer of [foreign, unknown]) {
    expect([answer.statusCode, answer.json<ErrorBody>().error.code]).toEqual([404, 'request.not_found']);
  }
  const cursor = await server.request('GET', '/v1/preview/models?after=nonsense');
  expect([cursor.statusCode, cursor.json<ErrorBody>().error.code]).toEqual([422, 'store.cursor_unknown']);
});

describe('labels', () => {
  const change = (id: string, body: object, headers = {}) =>
    server.request('PATCH', `/v1/preview/models/${id}`, body, headers);
  const names = async (query: string) => (await list(query)).data.map(({ name }) => name);

  test('tags and notes are given at registration and changed later; lists are filtered by them', async () => {
    const made = await server.request('POST', '/v1/preview/models', {
      project: 'labels',
      name: 'a',
      base_model: 'tiny/base',
      tags: ['sweep 1', 'sweep 1', 'β'],
      notes: 'first',
    });
    const { id } = made.json<{ id: string }>();
    await server.makeModel('b', 'labels');
    expect((await list('?project=labels')).data.map(({ tags, notes }) => [tags, notes])).toEqual([
      [['sweep 1', 'β'], 'first'],
      [[], ''],
    ]);
    const changed = await change(id, { add_tags: ['x'], remove_tags: ['β', 'none'], notes: 'second\nline' });
    expect(changed.json<ModelDetailsObject>()).toMatchObject({
      id,
      latest_step: 0,
      tags: ['sweep 1', 'x'],
      notes: 'second\nline',
      archived_at: null,
    });
    expect((await change(id, {})).json()).toEqual(changed.json());
    expect((await change(id, { notes: null, is_archived: null })).json()).toEqual(changed.json());
    expect(await names('?tag=sweep%201')).toEqual(['a']);
    expect(await names('?tag=sweep%201&tag=x')).toEqual(['a']);
    expect(await names('?tag=sweep%201&tag=y')).toEqual([]);
    expect((await change(id, { notes: '' })).json()).toMatchObject({ notes: '', tags: ['sweep 1', 'x'] });
  });

  test('an archived model is in no list, is served by name, keeps its data and takes no training jobs', async () => {
    const id = await server.makeModel('old', 'archive');
    await server.makeModel('new', 'archive');
    await server.addCheckpoint(id, 'c');
    const waiting = await server.store.jobs.enqueue({ modelId: id, kind: 'rl', config: {}, dataKey: 'groups/archive' });
    const busy = await change(id, { is_archived: true, notes: 'lost' });
    expect([busy.statusCode, busy.json<ErrorBody>().error]).toMatchObject([
      409,
      {
        code: 'request.model_in_training',
        param: 'is_archived',
        message: expect.stringContaining('1 unfinished training job:'),
      },
    ]);
    await server.store.jobs.cancel(waiting?.id ?? '', 'by a client');
    const archived = (await change(id, { is_archived: true })).json<ModelDetailsObject>();
    expect(archived).toMatchObject({ archived_at: expect.any(Number) as number, latest_step: 1, notes: '' });
    expect(await names('?project=archive')).toEqual(['new']);
    expect(await names('?project=archive&archived=only')).toEqual(['old']);
    expect(await names('?project=archive&archived=included')).toEqual(['old', 'new']);
    const served = (await server.request('GET', '/v1/models')).json<ModelList>();
    expect(served.data.filter((card) => card.id.startsWith('acme/archive/')).map((card) => card.id)).toEqual([
      'acme/archive/new',
      'acme/archive/new:step0',
    ]);
    const card = await server.request('GET', '/v1/models/acme/archive/old');
    expect([card.statusCode, card.json<{ id: string }>().id]).toEqual([200, 'acme/archive/old:step1']);
    expect((await server.request('GET', `/v1/preview/models/${id}`)).json()).toEqual(archived);
    for (const [url, body] of [
      ['training-jobs', { model_id: id, trajectory_groups: [] }],
      ['sft-training-jobs', { model_id: id, training_data_url: 'data:,' }],
      [`training-jobs/${waiting?.id}/retry`, undefined],
    ] as const) {
      const refused = await server.request('POST', `/v1/preview/${url}`, body);
      expect([refused.statusCode, refused.json<ErrorBody>().error.code], url).toEqual([409, 'store.model_archived']);
    }
    const taken = { project: 'archive', name: 'old', base_model: 'tiny/base' };
    const again = await server.request('POST', '/v1/preview/models', taken);
    expect([again.statusCode, again.json<ErrorBody>().error.message]).toEqual([
      409,
      'The model acme/archive/old already exists in the archive; send `return_existing: true` to use it',
    ]);
    expect((await change(id, { is_archived: false })).json()).toMatchObject({ archived_at: null });
    expect(await names('?project=archive')).toEqual(['old', 'new']);
    const job = await server.request('POST', '/v1/preview/training-jobs', { model_id: id, trajectory_groups: [] });
    expect(job.statusCode, job.body).toBe(200);
  });

  test.each<[string, object, (string | number)[]]>([
    ['an unknown field', { tags: ['a'] }, ['body', 'tags']],
    ['a tag with a comma', { add_tags: ['a', 'a,b'] }, ['body', 'add_tags', 1]],
    ['a tag with a space at its end', { add_tags: ['a '] }, ['body', 'add_tags', 0]],
    ['an empty tag', { add_tags: [''] }, ['body', 'add_tags', 0]],
    ['a tag of 65 characters', { add_tags: ['a'.repeat(65)] }, ['body', 'add_tags', 0]],
    ['a tag of two lines', { add_tags: ['a\nb'] }, ['body', 'add_tags', 0]],
    ['33 tags', { add_tags: Array.from({ length: 33 }, (_, index) => `t${index}`) }, ['body', 'add_tags']],
    ['notes with U+0000', { notes: 'a\0' }, ['body', 'notes']],
    ['notes of 10,001 characters', { notes: 'a'.repeat(10_001) }, ['body', 'notes']],
  ])('%s is refused, and nothing is changed', async (_name, body, loc) => {
    const id = await server.makeModel('refused', 'labels');
    const before = (await server.request('GET', `/v1/preview/models/${id}`)).json<ModelDetailsObject>();
    const answer = await change(id, { ...body, is_archived: true });
    expect([answer.statusCode, answer.json<{ detail: { loc: unknown }[] }>().detail[0]?.loc]).toEqual([422, loc]);
    expect((await server.request('GET', `/v1/preview/models/${id}`)).json()).toEqual(before);
  });

  test('a model has at most 32 tags, over several changes', async () => {
    const id = await server.makeModel('many', 'labels');
    const tags = (first: number, number: number) => Array.from({ length: number }, (_, index) => `t${first + index}`);
    await change(id, { add_tags: tags(0, 32) });
    const more = await change(id, { add_tags: ['more'] });
    expect([more.statusCode, more.json<ErrorBody>().error.message]).toEqual([
      422,
      expect.stringContaining('A model should have at most 32 tags, and would have 33'),
    ]);
    expect((await change(id, { add_tags: ['more', 't1'], remove_tags: ['t0'] })).statusCode).toBe(200);
  });

  test('of models of others are 404', async () => {
    const id = await server.makeModel('mine', 'labels');
    expect((await change(id, { notes: 'x' }, rival)).statusCode).toBe(404);
    expect((await change('unknown', { notes: 'x' })).statusCode).toBe(404);
  });
});

test('reading models takes a key of the scope training', async () => {
  const headers = { authorization: `Bearer ${await server.makeKey('acme', ['inference'])}` };
  for (const path of ['', '/any', '/any/metrics', '/any/series?name=x'])
    expect((await server.request('GET', `/v1/preview/models${path}`, undefined, headers)).statusCode).toBe(403);
});
