import type { ErrorBody, MetricListObject, SeriesListObject } from '@trainyard/protocol';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { TestServer } from '../../../testing/test-server.ts';

let server: TestServer;
let modelId: string;
beforeAll(async () => {
  server = await TestServer.start();
  modelId = await server.makeModel('agent');
  const { store } = server;
  await store.jobs.enqueue({ modelId, kind: 'rl', config: {}, dataKey: 'groups/1' });
  const job = await store.jobs.claim('test', 60_000);
  for (let index = 0; index < 10; index++) {
    await store.jobs.appendEvent(job?.id ?? '', job?.fencingToken ?? 0, {
      type: 'gradient_step',
      data: { loss: index },
      dedupeKey: `gradient_step:${index}`,
      metrics: { 'train/loss': index },
    });
  }
  const log = { trajectory_groups: [{ trajectories: [{ reward: 0.5 }, { reward: 1 }] }], split: 'val' };
  await server.request('POST', `/v1/preview/models/${modelId}/log`, log);
});
afterAll(() => server.close());

const read = async (query: string) =>
  (await server.request('GET', `/v1/preview/models/${modelId}/series?${query}`)).json<SeriesListObject>();

test('the metrics of a model are listed by name, each with its latest value', async () => {
  const { data } = (await server.request('GET', `/v1/preview/models/${modelId}/metrics`)).json<MetricListObject>();
  expect(data).toEqual([
    { name: 'train/loss', num_points: 10, last_value: 9, last_step: 1 },
    { name: 'val/exception_rate', num_points: 1, last_value: 0, last_step: 0 },
    { name: 'val/reward', num_points: 1, last_value: 0.75, last_step: 0 },
    { name: 'val/reward_std_dev', num_points: 1, last_value: 0.25, last_step: 0 },
    { name: 'val/solved_share', num_points: 1, last_value: 0.5, last_step: 0 },
  ]);
});

test('series come in columns, in the order of their names, as few points as asked for', async () => {
  const { axis, data } = await read('name=val/reward&name=train/loss&name=other');
  expect(axis).toBe('step');
  expect(data.map(({ name }) => name)).toEqual(['val/reward', 'train/loss', 'other']);
  expect(data[0]).toMatchObject({ first: [0], mean: [0.75], count: [1] });
  expect(data[1]).toMatchObject({ num_places: 1, first: [1], last: [1], mean: [4.5], min: [0], max: [9], count: [10] });
  expect(data[2]).toMatchObject({ num_places: 0, first: [], mean: [] });
  expect((await read('name=train/loss&axis=gradient_step')).data[0]?.mean).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
  expect((await read('name=train/loss&axis=gradient_step&max_points=2')).data[0]).toMatchObject({
    num_places: 10,
    first: [0, 5],
    last: [4, 9],
    mean: [2, 7],
    min: [0, 5],
    max: [4, 9],
  });
  expect((await read('name=train/loss&axis=gradient_step&from=3&to=4')).data[0]?.mean).toEqual([3, 4]);
});

test.each([
  ['', 'name'],
  ['name=', 'name'],
  ['name=a&axis=time', 'axis'],
  ['name=a&max_points=0', 'max_points'],
  ['name=a&max_points=10001', 'max_points'],
  ['name=a&from=-1', 'from'],
])('the query %j is refused and names %s', async (query, param) => {
  const answer = await server.request('GET', `/v1/preview/models/${modelId}/series?${query}`);
  expect([answer.statusCode, answer.json<ErrorBody>().error.param]).toEqual([422, param]);
});

test('the series of a deleted model, or of another entity, are 404', async () => {
  const rival = { authorization: `Bearer ${await server.makeKey('rival', ['training'])}` };
  const gone = await server.makeModel('gone');
  expect((await server.request('DELETE', `/v1/preview/models/${gone}`)).json()).toMatchObject({ deleted_run: true });
  for (const path of ['metrics', 'series?name=x']) {
    expect((await server.request('GET', `/v1/preview/models/${gone}/${path}`)).statusCode).toBe(404);
    expect((await server.request('GET', `/v1/preview/models/${modelId}/${path}`, undefined, rival)).statusCode).toBe(
      404,
    );
  }
});
