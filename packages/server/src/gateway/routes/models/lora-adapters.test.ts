import type { ChatCompletion, ErrorBody, ModelList } from '@trainyard/protocol';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { TestServer } from '../../../testing/test-server.ts';

let server: TestServer;
beforeAll(async () => {
  server = await TestServer.start();
});
afterAll(() => server.close());

/** A committed adapter of the entity. @returns its name */
async function importAdapter(digit: string, entity = 'acme'): Promise<string> {
  const { store, blobs } = server;
  const { id: entityId } = await store.keys.ensureEntity(entity);
  const id = crypto.randomUUID();
  const keys = { configKey: `uploads/${id}/config`, weightsKey: `uploads/${id}/weights` };
  await store.adapters.create({ id, entityId, baseModel: 'tiny/base', ...keys });
  const directoryKey = `adapters/${id}`;
  await blobs.commitDirectory(await blobs.stageDirectory(), directoryKey);
  const lora = { rank: 8, alpha: 16, targets: ['q'] };
  await server.importAdapter(id, { directoryKey, digest: digit.repeat(64), lora } as never);
  return `adapter:${id}`;
}

const load = (body: object, headers = {}) => server.request('POST', '/v1/load_lora_adapter', body, headers);
const unload = (body: object, headers = {}) => server.request('POST', '/v1/unload_lora_adapter', body, headers);
const chat = () => server.chat({ model: 'poet' });

test('an imported adapter is served under its name until it is unloaded', async () => {
  const path = await importAdapter('a');
  expect((await chat()).statusCode).toBe(404);
  const loaded = await load({ lora_name: 'poet', lora_path: path });
  expect([loaded.statusCode, loaded.body]).toEqual([200, "Success: LoRA adapter 'poet' added successfully."]);
  expect((await chat()).statusCode).toBe(200);
  expect(server.inference.lastRequest.adapter?.digest).toBe('a'.repeat(64));

  const again = await load({ lora_name: 'poet', lora_path: path });
  expect([again.statusCode, again.json<ErrorBody>().error.param]).toEqual([400, 'lora_name']);
  const replaced = await load({ lora_name: 'poet', lora_path: await importAdapter('b'), load_inplace: true });
  expect(replaced.statusCode).toBe(200);
  await chat();
  expect(server.inference.lastRequest.adapter?.digest).toBe('b'.repeat(64));

  const unloaded = await unload({ lora_name: 'poet' });
  expect([unloaded.statusCode, unloaded.body]).toEqual([200, "Success: LoRA adapter 'poet' removed successfully."]);
  // The imports are still available under their own names.
  expect(server.inference.retired).toEqual([]);
  expect((await chat()).statusCode).toBe(404);
  expect((await unload({ lora_name: 'poet' })).statusCode).toBe(404);
  // The import is still there.
  expect((await load({ lora_name: 'poet', lora_path: path })).statusCode).toBe(200);
  expect((await unload({ lora_name: 'poet' })).statusCode).toBe(200);
});

test('an imported adapter is served by its own name to its entity, from its commit to its deletion', async () => {
  const path = await importAdapter('c');
  const answer = await server.chat({ model: path });
  expect([answer.statusCode, answer.json()]).toMatchObject([200, { model: path }]);
  expect(server.inference.lastRequest.adapter?.digest).toBe('c'.repeat(64));
  // It is not a policy in training: unrequested fields are absent.
  expect(answer.json<ChatCompletion>().choices[0]?.logprobs).toBeNull();

  const card = { id: path, root: path, parent: 'tiny/base', max_model_len: expect.any(Number) };
  expect((await server.request('GET', `/v1/models/${path}`)).json()).toMatchObject(card);
  const { data } = (await server.request('GET', '/v1/models')).json<ModelList>();
  expect(data.filter(({ id }) => id === path)).toMatchObject([card]);

  const { id: entityId } = await server.store.keys.ensureEntity('acme');
  const open = await server.store.adapters.create({
    entityId,
    baseModel: 'tiny/base',
    configKey: 'c',
    weightsKey: 'w',
  });
  const early = await server.chat({ model: `adapter:${open.id}` });
  expect([early.statusCode, early.json<ErrorBody>().error]).toMatchObject([
    400,
    { code: 'request.conflict', param: 'model', message: `The adapter \`adapter:${open.id}\` is not committed yet` },
  ]);
  const foreign = await importAdapter('d', 'other');
  for (const name of [foreign, 'adapter:none', 'adapter:'])
    expect([(await server.chat({ model: name })).statusCode, name]).toEqual([404, name]);
  const deleted = await server.request('DELETE', `/v1/preview/adapters/${path.slice('adapter:'.length)}`);
  expect([deleted.statusCode, server.inference.retired]).toEqual([200, ['c'.repeat(64)]]);
  expect((await server.chat({ model: path })).statusCode).toBe(404);
  expect((await server.request('GET', '/v1/models')).body).not.toContain(path);
});

test.each([['/etc'], ['./adapter'], ['owner/repository'], ['file:///etc']])(
  'the path %j opens nothing',
  async (path) => {
    const response = await load({ lora_name: 'x', lora_path: path });
    expect([response.statusCode, response.json<ErrorBody>().error]).toMatchObject([
      400,
      { code: 'request.unsupported', param: 'lora_path', message: expect.stringContaining('/v1/preview/adapters') },
    ]);
  },
);

test('unknown adapters, those of others and taken names are refused', async () => {
  expect((await load({ lora_name: 'x', lora_path: 'adapter:none' })).statusCode).toBe(404);
  expect((await load({ lora_name: 'x', lora_path: await importAdapter('c', 'other') })).statusCode).toBe(404);
  await server.makeModel('agent');
  const path = await importAdapter('d');
  expect((await load({ lora_name: 'agent', lora_path: path })).json<ErrorBody>().error.param).toBe('lora_name');
  // A trained model is not a loaded adapter.
  expect((await unload({ lora_name: 'agent' })).statusCode).toBe(404);
  for (const name of ['a/b', '\ud800'])
    expect((await load({ lora_name: name, lora_path: path })).json<ErrorBody>().error.param).toBe('lora_name');
});

test('a name that is trained is not taken back', async () => {
  await load({ lora_name: 'pupil', lora_path: await importAdapter('e') });
  const model = await server.store.models.find('acme', 'lora-adapters', 'pupil');
  await server.addCheckpoint(model?.id ?? '', 'f');
  expect((await unload({ lora_name: 'pupil' })).json<ErrorBody>().error.message).toContain('trained');
});

test('both need a key of the scope training', async () => {
  const sampler = await server.makeKey('acme', ['inference']);
  const headers = { authorization: `Bearer ${sampler}` };
  expect((await load({ lora_name: 'x', lora_path: 'adapter:x' }, headers)).statusCode).toBe(403);
  expect((await unload({ lora_name: 'x' }, headers)).statusCode).toBe(403);
});
