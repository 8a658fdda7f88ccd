import { Readable } from 'node:stream';

import type { AdapterObject, ListPage, ModelObject } from '@trainyard/protocol';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';

import { TransferError } from '../../../hosts/transfers/transfer-error.ts';
import { resolveImportedAdapter } from '../../../seams/contract/resolve-imported-adapter.ts';
import { TestServer } from '../../../testing/test-server.ts';

const PATH = '/v1/preview/adapters';
/** Headers of a client without a known length. */
const CHUNKED = { 'transfer-encoding': 'chunked' };
const LORA = { rank: 8, alpha: 16, targets: ['q', 'v'], initSeed: 0 };

let server: TestServer;
beforeEach(async () => {
  server = await TestServer.start();
});
afterEach(() => server.close());

async function begin(): Promise<AdapterObject> {
  const response = await server.request('POST', PATH, {});
  expect(response.statusCode, response.body).toBe(200);
  return response.json<AdapterObject>();
}

/** Sends bytes without a media type, like `curl -T`. */
function put(id: string, name: string, payload: string | Buffer | Readable, headers: Record<string, string> = {}) {
  return server.app.inject({
    method: 'PUT',
    url: `${PATH}/${id}/files/${name}`,
    headers: { authorization: `Bearer ${server.key}`, ...headers },
    payload,
  });
}

/** Commits like the importer. */
async function makeReady(id: string): Promise<string> {
  const directoryKey = `adapters/${crypto.randomUUID()}`;
  await server.blobs.commitDirectory(await server.blobs.stageDirectory(), directoryKey);
  await server.importAdapter(id, { lora: LORA, directoryKey, digest: 'd'.repeat(64) });
  return directoryKey;
}

describe('an upload', () => {
  test('takes its files in any form of body, and replaces them', async () => {
    const { id, status, name } = await begin();
    expect(status).toBe('uploading');
    expect(name).toBe(`adapter:${id}`);
    const first = await put(id, 'adapter_config.json', '{"r": 8}', { 'content-type': 'application/json' });
    expect(first.json()).toEqual({ adapter_id: id, name: 'adapter_config.json', size_bytes: 8 });
    await put(id, 'adapter_config.json', '{}', { 'content-type': 'application/x-www-form-urlencoded' });
    const streamed = Readable.from([Buffer.alloc(3_000_000, 1), Buffer.alloc(2_000_000, 2)]);
    const second = await put(id, 'adapter_model.safetensors', streamed, CHUNKED);
    expect(second.json()).toMatchObject({ size_bytes: 5_000_000 });
    expect(String(await server.blobs.get(`uploads/${id}/config`))).toBe('{}');
    expect(await server.blobs.get(`uploads/${id}/weights`)).toHaveLength(5_000_000);
  });

  test('of another file, a larger one, or to an unknown id is refused', async () => {
    const { id } = await begin();
    expect((await put(id, 'adapter_model.bin', 'x')).json()).toMatchObject({
      error: { code: 'request.not_found', message: expect.stringContaining('adapter_model.safetensors') },
    });
    const large = await put(id, 'adapter_config.json', Buffer.alloc(262_145));
    expect(large.statusCode).toBe(413);
    // The same without a length: noticed during the upload.
    const streamed = await put(
      id,
      'adapter_config.json',
      Readable.from([Buffer.alloc(200_000), Buffer.alloc(62_145)]),
      CHUNKED,
    );
    expect(streamed.statusCode).toBe(413);
    expect(streamed.json()).toMatchObject({ error: { message: expect.stringContaining('at most 262144 bytes') } });
    const announced = await put(id, 'adapter_model.safetensors', 'x', { 'content-length': '536870913' });
    expect(announced.statusCode).toBe(413);
    expect((await put('unknown', 'adapter_config.json', '{}')).statusCode).toBe(404);
    expect(await server.blobs.listKeys()).toEqual([]);
  });

  test('is for the base model that is served', async () => {
    const response = await server.request('POST', PATH, { base_model: 'other/base' });
    expect(response.statusCode).toBe(404);
    expect(response.json()).toMatchObject({ error: { code: 'request.unknown_model', param: 'base_model' } });
  });

  test('with an idempotency key is started once', async () => {
    const headers = { 'idempotency-key': 'once' };
    const [first, second] = [
      await server.request('POST', PATH, {}, headers),
      await server.request('POST', PATH, {}, headers),
    ];
    expect(second.body).toBe(first.body);
    expect((await server.request('GET', PATH)).json<ListPage<AdapterObject>>().data).toHaveLength(1);
  });

  test('is one of a few', async () => {
    for (let i = 0; i < 8; i++) await begin();
    const response = await server.request('POST', PATH, {});
    expect(response.statusCode).toBe(429);
    expect(response.json()).toMatchObject({ error: { code: 'request.too_many' } });
    const other = { authorization: `Bearer ${await server.makeKey('other', ['training'])}` };
    expect((await server.request('POST', PATH, {}, other)).statusCode).toBe(200);
  });
});

describe('committing', () => {
  test('answers with the shape, again and again, and closes the upload', async () => {
    const { id } = await begin();
    server.transfers.onCommit = async (adapter) => {
      await makeReady(adapter.id);
      return (await server.store.adapters.get(adapter.id))!;
    };
    const committed = await server.request('POST', `${PATH}/${id}/commit`);
    expect(committed.json()).toMatchObject({
      status: 'ready',
      lora: { rank: 8, alpha: 16, targets: ['q_proj', 'v_proj'] },
      digest: 'd'.repeat(64),
    });
    server.transfers.onCommit = () => Promise.reject(new Error('a second import'));
    expect((await server.request('POST', `${PATH}/${id}/commit`)).body).toBe(committed.body);
    expect((await put(id, 'adapter_config.json', '{}')).json()).toMatchObject({ error: { code: 'request.conflict' } });
  });

  test('names the fault of the files, and leaves the upload open', async () => {
    const { id } = await begin();
    const message = 'tensor x is [2, 64], expected [2, 32] for this base model and r 2';
    server.transfers.onCommit = () => Promise.reject(new TransferError({ code: 'trainer.adapter_invalid', message }));
    const response = await server.request('POST', `${PATH}/${id}/commit`);
    expect(response.statusCode).toBe(422);
    expect(response.json()).toMatchObject({
      detail: [{ msg: message }],
      error: { code: 'trainer.adapter_invalid', message },
    });
    expect((await put(id, 'adapter_config.json', '{}')).statusCode).toBe(200);
  });
});

describe('tenants', () => {
  test("another's adapter looks like an unknown one, on every route", async () => {
    const { id } = await begin();
    const authorization = `Bearer ${await server.makeKey('other', ['training'])}`;
    const calls = [
      ['GET', `${PATH}/${id}`],
      ['DELETE', `${PATH}/${id}`],
      ['POST', `${PATH}/${id}/commit`],
      ['PUT', `${PATH}/${id}/files/adapter_config.json`],
    ] as const;
    for (const [method, url] of calls) {
      const theirs = await server.request(method, url, undefined, { authorization });
      const unknown = await server.request(method, url.replace(id, 'unknown'), undefined, { authorization });
      expect(theirs.statusCode).toBe(404);
      expect(theirs.body.replaceAll(id, 'unknown')).toBe(unknown.body);
    }
    expect((await server.request('GET', PATH, undefined, { authorization })).json()).toMatchObject({ data: [] });
  });
});

describe('deleting', () => {
  test('removes the upload, or the model made from it', async () => {
    const upload = await begin();
    await put(upload.id, 'adapter_config.json', '{}');
    expect((await server.request('DELETE', `${PATH}/${upload.id}`)).json()).toEqual({ id: upload.id, deleted: true });
    expect(await server.blobs.listKeys()).toEqual([]);
    const ready = await begin();
    const directoryKey = await makeReady(ready.id);
    await server.request('DELETE', `${PATH}/${ready.id}`);
    expect(await server.blobs.localDirectory(directoryKey)).toBeNull();
  });
});

describe('the name of an adapter', () => {
  const resolve = (name: string, entityId: string, baseModel = 'tiny/base') =>
    resolveImportedAdapter(server.store, { name, entityId, baseModel, param: 'init_from' });

  test('can be the start of a new model', async () => {
    const { id, name } = await begin();
    const register = (model: string, lora: object) =>
      server.request('POST', '/v1/preview/models', {
        project: 'demo',
        name: model,
        base_model: 'tiny/base',
        return_existing: true,
        lora,
      });
    expect((await register('early', { init_from: name })).json()).toMatchObject({
      error: { code: 'request.conflict', param: 'lora.init_from' },
    });
    const directoryKey = await makeReady(id);
    const made = await register('heir', { init_from: name });
    const model = made.json<ModelObject>();
    expect(model.lora).toMatchObject({ rank: 8, alpha: 16, targets: ['q_proj', 'v_proj'], init_from: name });
    expect((await register('heir', { init_from: name })).json()).toEqual(model);
    expect(await server.store.checkpoints.get(model.id, 0)).toMatchObject({ directoryKey, digest: 'd'.repeat(64) });
    expect((await register('heir', { init_from: 'adapter:other' })).statusCode).toBe(409);
    expect((await register('odd', { init_from: name, rank: 4 })).json()).toMatchObject({
      error: { param: 'lora.rank' },
    });
    expect((await register('odd', { init_from: 'adapter:unknown' })).statusCode).toBe(404);
  });

  test('refers to its weights once it is committed, for its own entity and base model', async () => {
    const { id, name } = await begin();
    const { id: entityId } = await server.store.keys.ensureEntity('acme');
    await expect(resolve(name, entityId)).rejects.toMatchObject({ code: 'request.conflict', param: 'init_from' });
    const directoryKey = await makeReady(id);
    expect(await resolve(name, entityId)).toEqual({
      baseModel: 'tiny/base',
      directoryKey,
      digest: 'd'.repeat(64),
      lora: LORA,
    });
    await expect(resolve(name, entityId, 'other/base')).rejects.toMatchObject({ code: 'request.conflict' });
    const { id: otherId } = await server.store.keys.ensureEntity('other');
    for (const [wrong, entity] of [
      [name, otherId],
      ['adapter:unknown', entityId],
      [id, entityId],
    ] as const) {
      await expect(resolve(wrong, entity)).rejects.toMatchObject({ code: 'request.not_found' });
    }
  });
});
