import type { ListPage, TrainingJobObject, TrainingQueueObject } from '@trainyard/protocol';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { TestServer } from '../../../testing/test-server.ts';

let server: TestServer;
let rival: Record<string, string>;
beforeAll(async () => {
  server = await TestServer.start();
  rival = { authorization: `Bearer ${await server.makeKey('rival', ['training'])}` };
});
afterAll(() => server.close());

test('jobs of all models are listed with filters, and have their place in the queue of everybody', async () => {
  const { store } = server;
  const [one, two] = [await server.makeModel('agent', 'one'), await server.makeModel('agent', 'two')];
  const { id: rivals } = await store.keys.ensureEntity('rival');
  const lora = { rank: 8, alpha: 16, targets: ['q'], initSeed: 0 };
  const theirs = await store.models.create({ entityId: rivals, project: 'p', name: 'n', baseModel: 'tiny/base', lora });
  const theirModel = theirs.kind === 'created' ? theirs.model.id : '';
  const add = async (modelId: string, kind: 'rl' | 'sft' = 'rl') => {
    const config = { resolved: {} };
    return (await store.jobs.enqueue({ modelId, kind, config, dataKey: `groups/${crypto.randomUUID()}` }))?.id ?? '';
  };
  const first = await add(theirModel);
  const mine = [await add(one), await add(two, 'sft'), await add(two)];
  await store.jobs.cancel(mine[2] ?? '', 'enough');

  const ids = async (query: string, headers = {}) =>
    (await server.request('GET', `/v1/preview/training-jobs${query}`, undefined, headers))
      .json<ListPage<TrainingJobObject>>()
      .data.map(({ id }) => id);
  expect(await ids('')).toEqual(mine);
  expect(await ids('', rival)).toEqual([first]);
  expect(await ids('?status=cancelled')).toEqual([mine[2]]);
  expect(await ids('?kind=sft')).toEqual([mine[1]]);
  expect(await ids(`?model_id=${one}`)).toEqual([mine[0]]);
  expect(await ids(`?model_id=${theirModel}`)).toEqual([]);
  expect(await ids('?project=two&order=desc&limit=1')).toEqual([mine[2]]);
  expect((await server.request('GET', '/v1/preview/training-jobs?status=paused')).statusCode).toBe(422);

  const queue = async (headers = {}) =>
    (await server.request('GET', '/v1/preview/training-queue', undefined, headers)).json<TrainingQueueObject>().data;
  expect(await queue(rival)).toMatchObject([{ id: first, num_ahead: 0, status: 'queued' }]);
  expect(await queue()).toMatchObject([
    { id: mine[0], model_id: one, num_ahead: 1, num_gradient_steps: null },
    { id: mine[1], kind: 'sft', num_ahead: 2 },
  ]);
  const job = await store.jobs.claim('test', 60_000);
  const started = { type: 'training_started', data: { num_sequences: 4 } };
  await store.jobs.appendEvent(job?.id ?? '', job?.fencingToken ?? 0, started);
  await store.jobs.appendEvent(job?.id ?? '', job?.fencingToken ?? 0, { type: 'gradient_step', data: {} });
  expect(await queue(rival)).toMatchObject([
    { id: first, status: 'running', num_gradient_steps_done: 1, num_gradient_steps: 4 },
  ]);
});
