import type { CheckpointObject, ListPage } from '@trainyard/protocol';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { TestServer } from '../../../testing/test-server.ts';

let server: TestServer;
beforeAll(async () => {
  server = await TestServer.start();
});
afterAll(() => server.close());

const list = async (modelId: string, query = '') =>
  (await server.request('GET', `/v1/preview/models/${modelId}/checkpoints${query}`)).json<ListPage<CheckpointObject>>();
const keep = async (modelId: string, body: object, headers = {}) =>
  await server.request('POST', `/v1/preview/models/${modelId}/checkpoints/keep`, body, headers);

test('a mark is listed, taken away again, and steps without a checkpoint are named', async () => {
  const id = await server.makeModel('marked');
  await server.addCheckpoint(id, 'a');
  expect((await keep(id, { steps: [1, 7] })).json()).toEqual({ steps: [1], restored_steps: [], not_found_steps: [7] });
  expect((await list(id)).data).toMatchObject([
    { step: 0, is_marked: false, size_bytes: null, kept_for: null, removed_at: null },
    { step: 1, is_marked: true },
  ]);
  expect((await keep(id, { steps: [1], is_kept: false })).json()).toMatchObject({ steps: [1] });
  expect((await list(id)).data[1]).toMatchObject({ is_marked: false });
});

test('a removed step is listed with `removed`, cannot be sampled from, and is restored by a mark', async () => {
  const id = await server.makeModel('removed');
  for (const digit of 'bcd') await server.addCheckpoint(id, digit);
  const { directoryKeys } = await server.store.retention.remove(id, [1, 2]);
  for (const key of directoryKeys) await server.blobs.discard({ kind: 'directory', key }, 1);
  expect((await list(id)).data.map(({ step }) => step)).toEqual([0, 3]);
  const removed = await list(id, '?removed=true&limit=1');
  expect(removed).toMatchObject({ has_more: true, data: [{ step: 1, removed_at: expect.any(Number) }] });
  expect((await list(id, `?removed=true&after=${removed.last_id}`)).data).toMatchObject([{ step: 2 }]);
  expect((await list(id, '?removed=true&max_step=1')).data).toMatchObject([{ step: 1 }]);
  expect((await list(id, '?min_step=1')).data).toMatchObject([{ step: 3 }]);
  expect((await list(id, '?min_step=1&max_step=2')).data).toEqual([]);
  expect((await server.chat({ model: 'acme/demo/removed:step1' })).statusCode).toBe(404);

  const key = { 'idempotency-key': 'restore-1' };
  const answers = [await keep(id, { steps: [1] }, key), await keep(id, { steps: [1] }, key)];
  for (const answer of answers) expect(answer.json()).toEqual({ steps: [1], restored_steps: [1], not_found_steps: [] });
  expect((await list(id)).data.map(({ step }) => step)).toEqual([0, 1, 3]);
  expect((await server.chat({ model: 'acme/demo/removed:step1' })).statusCode).toBe(200);

  // Its files are deleted for good.
  for (const item of await server.blobs.listBin()) await server.blobs.removeBinned(item);
  expect((await keep(id, { steps: [2] })).json()).toEqual({ steps: [], restored_steps: [], not_found_steps: [2] });
});

test('a request that names a step holds it for a day; one by the bare name does not', async () => {
  const id = await server.makeModel('held');
  for (const digit of 'ef') await server.addCheckpoint(id, digit);
  await server.chat({ model: 'acme/demo/held' });
  await server.chat({ model: 'acme/demo/held:step1' });
  await expect
    .poll(async () => (await server.store.retention.listStates(id)).map(({ usedUntil }) => usedUntil !== null))
    .toEqual([false, true, false]);
  const until = (await server.store.retention.listStates(id))[1]!.usedUntil!;
  expect(until - server.store.clock.now()).toBeGreaterThan(23 * 3_600_000);
  expect((await server.store.retention.remove(id, [1])).steps).toEqual([]);
});

test('a model of another tenant is unknown, and a body that is no list of steps is refused', async () => {
  const id = await server.makeModel('own');
  const rival = { authorization: `Bearer ${await server.makeKey('rival', ['training'])}` };
  expect((await keep(id, { steps: [0] }, rival)).statusCode).toBe(404);
  for (const body of [{}, { steps: ['1'] }, { steps: [-1] }, { steps: [1], keep: true }])
    expect((await keep(id, body)).statusCode).toBe(422);
});
