import { afterAll, beforeAll, expect, test } from 'vitest';

import type { ErrorBody, HostsObject, ModelList, ModelObject } from '@trainyard/protocol';

import { TRAINABLE_ARCHITECTURES } from '@trainyard/trainer';

import { ScriptedInference } from '../../../testing/scripted-inference.ts';
import { TestServer } from '../../../testing/test-server.ts';

const REASON = "architecture 'gemma2' cannot be trained; supported: llama, qwen2";
const BASE = { id: 'tiny/gemma', contextLength: 512, vocabSize: 1000, untrainable: REASON };

let server: TestServer;
beforeAll(async () => {
  server = await TestServer.startOn(new ScriptedInference(BASE));
});
afterAll(() => server.close());

const register = (name: string, more: object = {}) =>
  server.request('POST', '/v1/preview/models', { project: 'demo', name, base_model: BASE.id, ...more });

test('a base model that cannot be trained is marked in lists', async () => {
  const { data } = (await server.request('GET', '/v1/models')).json<ModelList>();
  expect(data.map(({ id, trainable, permission }) => [id, trainable, permission[0]!.allow_fine_tuning])).toEqual([
    [BASE.id, false, false],
  ]);
  const admin = { authorization: `Bearer ${await server.makeKey('acme', ['admin'])}` };
  const { sampling } = (await server.request('GET', '/v1/preview/hosts', undefined, admin)).json<HostsObject>();
  expect(sampling.hosts).toMatchObject([{ base_model: BASE.id, untrainable: REASON }]);
});

test('registration on it is 422 with the trainable models, unless it is for sampling only', async () => {
  const refused = await register('refused');
  expect(refused.statusCode).toBe(422);
  const { message } = refused.json<ErrorBody>().error;
  for (const part of [
    REASON,
    `Trainable architectures: ${TRAINABLE_ARCHITECTURES.join(', ')}`,
    '`sampling_only: true`',
  ])
    expect(message).toContain(part);
  expect((await register('refused', { sampling_only: false })).statusCode).toBe(422);
  const accepted = await register('sampled', { sampling_only: true });
  expect(accepted.statusCode).toBe(200);
  expect((await server.chat({ model: 'sampled' })).statusCode).toBe(200);
  // A repeated script finds its model.
  expect((await register('sampled', { return_existing: true })).statusCode).toBe(200);
});

test('jobs of such a model are refused before they are queued', async () => {
  const { id } = (await register('idle', { sampling_only: true })).json<ModelObject>();
  for (const [path, body] of [
    ['training-jobs', { trajectory_groups: [] }],
    ['sft-training-jobs', { training_data_url: 'data:,%7B%22messages%22%3A%5B%5D%7D' }],
  ] as const) {
    const refused = await server.request('POST', `/v1/preview/${path}`, { model_id: id, ...body });
    expect([path, refused.statusCode]).toEqual([path, 422]);
    expect(refused.body).toContain('cannot be trained');
  }
});
