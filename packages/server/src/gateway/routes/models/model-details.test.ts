import type { ErrorBody, ListPage, ModelDetailsObject } from '@trainyard/protocol';
import { afterAll, beforeAll, expect, test } from 'vitest';

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

test('reading models takes a key of the scope training', async () => {
  const headers = { authorization: `Bearer ${await server.makeKey('acme', ['inference'])}` };
  for (const path of ['', '/any', '/any/metrics', '/any/series?name=x'])
    expect((await server.request('GET', `/v1/preview/models${path}`, undefined, headers)).statusCode).toBe(403);
});
