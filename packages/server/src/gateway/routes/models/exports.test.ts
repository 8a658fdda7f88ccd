import type { ExportObject, ListPage } from '@trainyard/protocol';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';

import { TestServer } from '../../../testing/test-server.ts';

let server: TestServer;
let modelId: string;
beforeEach(async () => {
  server = await TestServer.start();
  modelId = await server.makeModel('agent');
});
afterEach(() => server.close());

const exportsOf = (id: string) => `/v1/preview/models/${id}/exports`;
const create = (body: object, headers = {}) => server.request('POST', exportsOf(modelId), body, headers);

describe('creating an export', () => {
  test('queues it and notifies the worker', async () => {
    await server.addCheckpoint(modelId, 'a');
    const response = await create({ format: 'peft' });
    expect(response.statusCode).toBe(200);
    const queued = response.json<ExportObject>();
    expect(queued).toMatchObject({
      model_id: modelId,
      step: 1,
      format: 'peft',
      dtype: 'f32',
      status: 'queued',
      source_digest: 'a'.repeat(64),
      files: [],
      parity: null,
      error_message: null,
    });
    expect(server.transfers.numNotified).toBe(1);
    const read = await server.request('GET', `${exportsOf(modelId)}/${queued.id}`);
    expect(read.json()).toEqual(queued);
    expect(await server.store.exports.get(queued.id)).toMatchObject({ format: 'peft', dtype: 'f32' });
    expect((await server.store.jobs.claim('test', 60_000, ['export']))?.id).toBe(queued.id);
  });

  test('takes the latest step, or the one asked for', async () => {
    await server.addCheckpoint(modelId, 'a');
    await server.addCheckpoint(modelId, 'b');
    const steps = [undefined, null, 1, 0].map((step) => create({ format: 'merged-gguf', step }));
    const answers = await Promise.all(steps);
    expect(answers.map((answer) => answer.json<ExportObject>().step)).toEqual([2, 2, 1, 0]);
    expect(answers[0]!.json<ExportObject>().dtype).toBe('f16');
  });

  test.each(['peft', 'gguf-adapter'])(
    'of a model that was never trained may be one of its adapter: %s',
    async (format) => {
      const answer = await create({ format });
      expect(answer.statusCode).toBe(200);
      expect(answer.json<ExportObject>()).toMatchObject({ step: 0, format, source_digest: null, status: 'queued' });
    },
  );

  test('with an idempotency key makes one', async () => {
    const headers = { 'idempotency-key': 'once' };
    const first = await create({ format: 'merged-gguf' }, headers);
    const second = await create({ format: 'merged-gguf' }, headers);
    expect(second.body).toBe(first.body);
    const list = await server.request('GET', exportsOf(modelId));
    expect(list.json<ListPage<ExportObject>>().data).toHaveLength(1);
  });

  test.each([
    [{ format: 'peft', step: 7 }, 404, 'request.not_found', 'no checkpoint of step 7'],
    [{ format: 'peft', step: 2 ** 53 }, 422, 'request.invalid', 'less than or equal to 9007199254740991'],
    [{ format: 'peft', step: 1e300 }, 422, 'request.invalid', 'less than or equal to 9007199254740991'],
    [{ format: 'gguf-adapter', dtype: 'f16' }, 400, 'request.conflict', '`dtype` f16 applies only to merged formats'],
    [{ format: 'zip' }, 422, 'request.invalid', "'peft', 'gguf-adapter', 'merged-gguf' or 'merged-safetensors'"],
    [{ format: 'merged-gguf', dtype: 'q4_0' }, 422, 'request.invalid', 'dtype'],
    [{}, 422, 'request.invalid', 'Field required'],
  ])('%j is refused', async (body, status, code, message) => {
    const response = await create(body);
    expect(response.statusCode).toBe(status);
    expect(response.json()).toMatchObject({ error: { code, message: expect.stringContaining(message) } });
    expect(server.transfers.numNotified).toBe(0);
  });

  test('is no training job, though it is in the same queue', async () => {
    const queued = (await create({ format: 'peft' })).json<ExportObject>();
    const job = `/v1/preview/training-jobs/${queued.id}`;
    for (const [method, url] of [
      ['GET', job],
      ['POST', `${job}/pause`],
      ['POST', `${job}/cancel`],
    ] as const)
      expect((await server.request(method, url)).statusCode).toBe(404);
    expect(await server.store.exports.get(queued.id)).toMatchObject({ status: 'queued' });
    const listed = await server.request('GET', `/v1/preview/models/${modelId}/training-jobs`);
    expect(listed.json()).toMatchObject({ data: [] });
  });

  test('is refused above the limit of waiting exports, with a Retry-After', async () => {
    for (let i = 0; i < 8; i++) expect((await create({ format: 'merged-gguf' })).statusCode).toBe(200);
    const response = await create({ format: 'merged-gguf' });
    expect(response.statusCode).toBe(429);
    expect(response.headers['x-should-retry']).toBe('true');
    expect(response.json()).toMatchObject({ error: { code: 'request.too_many' } });
  });
});

describe('a finished export', () => {
  test('shows its files and its parity, and gives them out', async () => {
    const { id } = await server.addExport(modelId, { 'model.gguf': 'weights\n', 'parity.json': '{}' });
    const shown = (await server.request('GET', `${exportsOf(modelId)}/${id}`)).json<ExportObject>();
    expect(shown).toMatchObject({
      status: 'succeeded',
      files: [{ name: 'model.gguf', size_bytes: 8 }, { name: 'parity.json' }],
      parity: {
        num_tokens: 256,
        mean_abs_difference: 0.003,
        max_abs_difference: 0.02,
        computed_by: 'llama.cpp',
        adapter_effect: 1,
      },
    });
    const file = await server.request('GET', `${exportsOf(modelId)}/${id}/files/model.gguf`);
    expect(file.body).toBe('weights\n');
    expect(file.headers).toMatchObject({
      'content-type': 'application/octet-stream',
      'content-length': '8',
      etag: `"${shown.files[0]!.sha256}"`,
      'content-disposition': 'attachment; filename="model.gguf"',
    });
  });

  test.each(['none.gguf', '..%2f..%2ftrainyard.db', 'MODEL.GGUF', '__proto__'])('has no file %s', async (name) => {
    const { id } = await server.addExport(modelId, { 'model.gguf': 'x' });
    const response = await server.request('GET', `${exportsOf(modelId)}/${id}/files/${name}`);
    expect(response.statusCode).toBe(404);
    expect(response.json()).toMatchObject({ error: { code: 'request.not_found' } });
  });

  test('is deleted with its files', async () => {
    const { id, directoryKey } = await server.addExport(modelId, { 'model.gguf': 'x' });
    const response = await server.request('DELETE', `${exportsOf(modelId)}/${id}`);
    expect(response.json()).toEqual({ id, deleted: true });
    expect(await server.blobs.localDirectory(directoryKey!)).toBeNull();
    expect(server.transfers.cancelled).toEqual([id]);
    for (const method of ['GET', 'DELETE'] as const) {
      expect((await server.request(method, `${exportsOf(modelId)}/${id}`)).statusCode).toBe(404);
    }
  });

  test('goes with its model', async () => {
    const { id, directoryKey } = await server.addExport(modelId, { 'model.gguf': 'x' });
    await server.request('DELETE', `/v1/preview/models/${modelId}`);
    expect(await server.blobs.localDirectory(directoryKey!)).toBeNull();
    expect(server.transfers.cancelled).toEqual([modelId]);
    expect((await server.request('GET', `${exportsOf(modelId)}/${id}`)).statusCode).toBe(404);
  });

  test('with missing files is a failure of the service', async () => {
    const { id, directoryKey } = await server.addExport(modelId, { 'model.gguf': 'x' });
    await server.blobs.removeDirectory(directoryKey!);
    const response = await server.request('GET', `${exportsOf(modelId)}/${id}/files/model.gguf`);
    expect(response.statusCode).toBe(500);
    expect(response.json()).toMatchObject({ error: { code: 'store.blob_missing' } });
    expect(response.body).not.toContain(directoryKey);
  });
});

describe('tenants', () => {
  test("another's model and export look like unknown ones, on every route", async () => {
    const { id } = await server.addExport(modelId, { 'model.gguf': 'x' });
    const other = { authorization: `Bearer ${await server.makeKey('other', ['training'])}` };
    const mine = await server.makeModel('second');
    const calls = [
      ['POST', exportsOf(modelId), { format: 'merged-gguf' }],
      ['GET', exportsOf(modelId)],
      ['GET', `${exportsOf(modelId)}/${id}`],
      ['GET', `${exportsOf(modelId)}/${id}/files/model.gguf`],
      ['DELETE', `${exportsOf(modelId)}/${id}`],
    ] as const;
    for (const [method, url, body] of calls) {
      const theirs = await server.request(method, url, body, other);
      const unknown = await server.request(method, url.replace(modelId, 'unknown'), body, other);
      expect(theirs.statusCode).toBe(404);
      expect(theirs.body.replaceAll(modelId, 'unknown')).toBe(unknown.body);
    }
    // An export is only found under its own model.
    expect((await server.request('GET', `${exportsOf(mine)}/${id}`)).statusCode).toBe(404);
    expect((await server.request('GET', `${exportsOf(modelId)}/${id}`)).statusCode).toBe(200);
  });

  test('a key without the scope is refused', async () => {
    const reader = { authorization: `Bearer ${await server.makeKey('acme', ['inference'])}` };
    for (const url of [exportsOf(modelId), '/v1/preview/adapters']) {
      expect((await server.request('GET', url, undefined, reader)).statusCode).toBe(403);
    }
  });
});
