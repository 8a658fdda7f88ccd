import { afterEach, beforeEach, expect, test } from 'vitest';
import type { AdapterObject, ArtifactObject, ErrorBody } from '@trainyard/protocol';

import { TestServer } from '../../testing/test-server.ts';

let server: TestServer;
beforeEach(async () => {
  server = await TestServer.start();
});
afterEach(() => server.close());

type Sent = { statusCode: number; body: string; headers: Record<string, unknown>; json: () => unknown };
/**
 * Sends the same request twice with one key, then with another body if it has one: the answer, the same
 * again, a mismatch.
 */
async function twice(send: (key: string) => Promise<Sent>): Promise<Sent> {
  const key = `key-${crypto.randomUUID()}`;
  const first = await send(key);
  expect(first.statusCode, first.body).toBe(200);
  expect(first.headers['idempotent-replayed']).toBeUndefined();
  const second = await send(key);
  expect([second.statusCode, second.body]).toEqual([200, first.body]);
  expect(second.headers['idempotent-replayed']).toBe('true');
  return { ...first, headers: { ...first.headers, key } };
}

const remove = (url: string, key?: string, body?: object) =>
  server.request('DELETE', url, body, key === undefined ? {} : { 'idempotency-key': key });

const ARTIFACT = '/v1/preview/artifacts/acme/demo/facts';
const line = (text: string) => `${JSON.stringify({ messages: [{ role: 'assistant', content: text }] })}\n`;
const upload = (content: string, key?: string, url = ARTIFACT) =>
  server.request('POST', url, content, {
    'content-type': 'application/jsonl',
    ...(key === undefined ? {} : { 'idempotency-key': key }),
  });

test('each DELETE with a key answers the same again, and 404 without', async () => {
  const modelId = await server.makeModel('agent');
  const step = await server.addCheckpoint(modelId, 'a');
  const { id: exportId } = await server.addExport(modelId, { 'model.gguf': 'x' });
  const { id: adapterId } = (
    await server.request('POST', '/v1/preview/adapters', { base_model: null })
  ).json<AdapterObject>();
  await upload(line('a'));
  const checkpoints = `/v1/preview/models/${modelId}/checkpoints`;
  const answer = await twice((key) => remove(checkpoints, key, { steps: [step] }));
  expect(answer.json()).toEqual({ deleted_count: 1, not_found_steps: [] });
  const other = await remove(checkpoints, String(answer.headers['key']), { steps: [step + 1] });
  expect([other.statusCode, other.json<ErrorBody>().error.code]).toEqual([422, 'request.idempotency_mismatch']);

  for (const url of [
    `/v1/preview/models/${modelId}/exports/${exportId}`,
    `/v1/preview/adapters/${adapterId}`,
    `${ARTIFACT}/v0`,
    `/v1/preview/models/${modelId}`,
  ]) {
    await twice((key) => remove(url, key));
    expect((await remove(url)).statusCode, url).toBe(404);
  }
});

test('a refused DELETE keeps its key free', async () => {
  expect((await remove('/v1/preview/models/nobody', 'again')).statusCode).toBe(404);
  expect((await remove(`/v1/preview/models/${await server.makeModel('agent')}`, 'again')).statusCode).toBe(200);
});

test('the effect of a DELETE and its answer are one: a crash between them cannot lose the answer', async () => {
  const modelId = await server.makeModel('agent');
  // Code after the effect fails, as in a crash.
  server.training.stopJob = () => Promise.reject(new Error('crash'));
  await server.store.jobs.enqueue({ modelId, kind: 'rl', config: {}, dataKey: 'groups/x' });
  const url = `/v1/preview/models/${modelId}`;
  expect((await remove(url, 'k')).statusCode).toBe(500);
  const again = await remove(url, 'k');
  expect([again.statusCode, again.json()]).toEqual([
    200,
    { model_id: modelId, deleted_checkpoints: 1, deleted_run: true },
  ]);
});

test('an upload with a key is one version, also after other uploads', async () => {
  const first = await upload(line('a'), 'up');
  expect(first.json<ArtifactObject>().version).toBe('v0');
  expect((await upload(line('b'))).json<ArtifactObject>().version).toBe('v1');
  const again = await upload(line('a'), 'up');
  expect([again.body, again.headers['idempotent-replayed']]).toEqual([first.body, 'true']);
  const numBlobs = (await server.blobs.listKeys()).length;
  const other = await upload(line('c'), 'up');
  expect([other.statusCode, other.json<ErrorBody>().error.code]).toEqual([422, 'request.idempotency_mismatch']);
  const named = await upload(line('a'), 'up', `${ARTIFACT}?file_name=other.jsonl`);
  expect(named.statusCode).toBe(422);
  // Nothing of the unused upload is left.
  expect((await server.blobs.listKeys()).length).toBe(numBlobs);
  expect((await upload(line('c'))).json<ArtifactObject>().version).toBe('v2');
});

test('an upload that is refused, or that is still running, keeps to the rules', async () => {
  expect((await upload('{"messages": 5}\n', 'up')).statusCode).toBe(422);
  expect((await upload('', 'up')).statusCode).toBe(422);
  expect((await upload(line('a'), 'up')).statusCode).toBe(200);
  const both = await Promise.all([upload(line('d'), 'same'), upload(line('d'), 'same')]);
  const statuses = both.map(({ statusCode }) => statusCode);
  expect(statuses).toContain(200);
  expect([200, 409]).toContain(statuses.find((status) => status !== 200) ?? 200);
  const page = (await server.request('GET', ARTIFACT)).json<{ data: unknown[] }>();
  expect(page.data).toHaveLength(2);
});

test('a PUT with a key answers the same again, also when the upload has ended meanwhile, and refuses another body', async () => {
  const { id } = (await server.request('POST', '/v1/preview/adapters', { base_model: null })).json<AdapterObject>();
  const url = `/v1/preview/adapters/${id}/files/adapter_config.json`;
  const put = (content: string, key?: string) =>
    server.request('PUT', url, content, {
      'content-type': 'application/octet-stream',
      ...(key === undefined ? {} : { 'idempotency-key': key }),
    });
  const answer = await twice((key) => put('{"a": 1}', key));
  const key = String(answer.headers['key']);
  const other = await put('{"a": 2}', key);
  expect([other.statusCode, other.json<ErrorBody>().error.code]).toEqual([422, 'request.idempotency_mismatch']);
  const adapter = await server.store.adapters.get(id);
  expect(Buffer.from(await server.blobs.get(adapter?.upload?.configKey ?? '')).toString()).toBe('{"a": 1}');
  await remove(`/v1/preview/adapters/${id}`);
  expect([(await put('{"a": 1}', key)).statusCode, (await put('{"a": 1}')).statusCode]).toEqual([200, 404]);
  expect((await put('{"a": 3}', 'fresh')).statusCode).toBe(404);
});

test('a commit with a key answers the same again', async () => {
  const { id } = (await server.request('POST', '/v1/preview/adapters', { base_model: null })).json<AdapterObject>();
  const answer = await twice((key) =>
    server.request('POST', `/v1/preview/adapters/${id}/commit`, undefined, { 'idempotency-key': key }),
  );
  expect(answer.json()).toMatchObject({ id });
});
