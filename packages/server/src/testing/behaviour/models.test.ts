/** Reference §12.1 and the rule of §1.2 for `model`. */
import { afterAll, beforeAll, expect } from 'vitest';
import type { ModelCard, ModelList } from '@trainyard/protocol';

import { test } from '../behaviour-test.ts';
import { ScriptedService } from '../scripted-service.ts';

let service: ScriptedService;
beforeAll(async () => {
  service = await ScriptedService.open({ contextLength: 100 });
  await service.server.addCheckpoint(await service.server.makeModel('agent'), 'a');
  service.setReply('hi');
});
afterAll(() => service.close());

const list = async () => (await service.server.request('GET', '/v1/models')).json<ModelList>().data;
const NOW = Math.floor(Date.now() / 1000);

test('the card of the base model has every key', async () => {
  const [card] = await list();
  expect(card).toEqual({
    id: 'tiny/base',
    object: 'model',
    created: expect.any(Number),
    owned_by: 'trainyard',
    root: 'tiny/base',
    parent: null,
    max_model_len: 100,
    trainable: true,
    permission: [
      {
        id: expect.stringMatching(/^modelperm-[0-9a-f]{32}$/),
        object: 'model_permission',
        created: expect.any(Number),
        allow_create_engine: false,
        allow_sampling: true,
        allow_logprobs: true,
        allow_search_indices: false,
        allow_view: true,
        allow_fine_tuning: true,
        organization: '*',
        group: null,
        is_blocking: false,
      },
    ],
  });
  expect(card!.created).toBeGreaterThanOrEqual(NOW);
  expect((await list())[0]!.permission[0]!.id).not.toBe(card!.permission[0]!.id);
});

test('adapters follow: their parent is the base, and their length is its', async () => {
  const [, ...adapters] = await list();
  expect(adapters.map(({ id, parent, max_model_len: length }) => [id, parent, length])).toEqual([
    ['acme/demo/agent', 'tiny/base', 100],
    ['acme/demo/agent:step0', 'tiny/base', 100],
    ['acme/demo/agent:step1', 'tiny/base', 100],
  ]);
  const one = await service.server.request('GET', '/v1/models/acme/demo/agent');
  expect(one.json<ModelCard>().parent).toBe('tiny/base');
  expect((await service.server.request('GET', '/v1/models/nobody')).statusCode).toBe(404);
});

test('null and empty are the base model; the answer names the served model', async () => {
  for (const model of [null, '', 'tiny/base', undefined])
    expect((await service.answer({ model })).model).toBe('tiny/base');
  expect((await service.answer({ model: 'agent' })).model).toBe('acme/demo/agent:step1');
  expect(service.inference.lastRequest.adapter?.digest).toBe('a'.repeat(64));
});
