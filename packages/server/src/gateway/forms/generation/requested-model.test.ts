import { StoreError } from '@trainyard/store';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';

import { createServer } from '../../create-server.ts';
import { TestServer } from '../../../testing/test-server.ts';

let server: TestServer;
beforeEach(async () => (server = await TestServer.start()));
afterEach(() => server.close());

test('a model that was deleted here is not sampled from while the database is away, as others are', async () => {
  const { store, blobs, inference, training, transfers } = server;
  const parts = { store, blobs, inference, training, exports: transfers, imports: transfers };
  const app = createServer({ ...parts, outageMs: 60_000 });
  const send = async (method: 'POST' | 'DELETE', url: string, payload?: object) =>
    await app.inject({ method, url, headers: { authorization: `Bearer ${server.key}` }, ...(payload && { payload }) });
  const chat = async (model: string) =>
    (await send('POST', '/v1/chat/completions', { model, messages: [{ role: 'user', content: 'hello' }] })).statusCode;
  const register = async (name: string) =>
    (await send('POST', '/v1/preview/models', { project: 'p', name, base_model: 'tiny/base' })).json<{ id: string }>()
      .id;
  const [gone] = [await register('gone'), await register('kept')];
  for (const name of ['gone', 'kept']) expect(await chat(name)).toBe(200);
  expect((await send('DELETE', `/v1/preview/models/${gone}`)).statusCode).toBe(200);
  expect(await chat('kept')).toBe(200);
  vi.spyOn(store.models, 'findByName').mockRejectedValue(new StoreError('store.unavailable', 'it is away'));
  expect(await chat('gone')).toBe(503);
  expect(await chat('kept')).toBe(200);
  await app.close();
});
