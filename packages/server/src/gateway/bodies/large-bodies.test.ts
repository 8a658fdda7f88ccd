import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import type { FastifyInstance } from 'fastify';
import { type BlobLocation, type Blobs, openBlobs } from '@trainyard/store';
import { MemoryBucket } from '@trainyard/store/testing';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';

import { createServer } from '../create-server.ts';
import { TestServer } from '../../testing/test-server.ts';
import { checkBodyThread } from '../trajectory-bodies/body-thread-client.ts';

/** Above the size up to which the event loop parses trajectories. */
const LARGE = 1_200_000;

let folder: string;
let bucket: MemoryBucket;
let server: TestServer;
const apps = new Map<string, { app: FastifyInstance; blobs: Blobs }>();

/** Every kind of blob store. */
const STORES: readonly [string, () => BlobLocation][] = [
  ['a folder', () => ({ kind: 'folder', root: join(folder, 'blobs') })],
  [
    'a bucket',
    () => ({ kind: 's3', url: bucket.url, region: 'r', cacheDirectory: join(folder, 'cache'), cacheBytes: 1e9 }),
  ],
];

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'trainyard-large-'));
  bucket = await MemoryBucket.start();
  server = await TestServer.start();
  vi.stubEnv('AWS_ACCESS_KEY_ID', 'tests');
  vi.stubEnv('AWS_SECRET_ACCESS_KEY', 'a secret of these tests');
  for (const [name, location] of STORES) {
    const blobs = await openBlobs(location());
    const { store, inference, training, transfers } = server;
    const app = createServer({ store, blobs, inference, training, exports: transfers, imports: transfers });
    await app.ready();
    apps.set(name, { app, blobs });
  }
});
afterAll(async () => {
  for (const { app, blobs } of apps.values()) {
    await app.close();
    await blobs.close();
  }
  await server.close();
  await bucket.close();
  await rm(folder, { recursive: true });
  vi.unstubAllEnvs();
});

const messages = [
  { role: 'user', content: 'hello' },
  { role: 'assistant', content: 'x'.repeat(LARGE / 100) },
];
const trajectories = Array.from({ length: 100 }, (_, reward) => ({ messages_and_choices: messages, reward }));
const lines = `${JSON.stringify({ messages })}\n`.repeat(100);
/** Trailing blanks count as part of a JSON body. */
const padded = (body: object): string => JSON.stringify(body).padEnd(LARGE);
const chat = { model: 'tiny/base', messages: [{ role: 'user', content: 'hello' }] };

interface LargeRequest {
  readonly method: 'POST' | 'PUT';
  readonly url: string;
  readonly payload: string;
  readonly type?: string;
}

/** Every route that accepts bodies above 1 MB, by method and pattern. */
const ROUTES: Readonly<Record<string, (app: FastifyInstance) => Promise<LargeRequest>>> = {
  'POST /v1/preview/training-jobs': async () => ({
    method: 'POST',
    url: '/v1/preview/training-jobs',
    payload: JSON.stringify({
      model_id: await server.makeModel('job'),
      trajectory_groups: [{ trajectories }],
      experimental_config: { allow_training_without_logprobs: true },
    }),
  }),
  'POST /v1/preview/models/:model_id/log': async () => ({
    method: 'POST',
    url: `/v1/preview/models/${await server.makeModel('log')}/log`,
    payload: JSON.stringify({ trajectory_groups: [{ trajectories }], split: 'val' }),
  }),
  'POST /v1/preview/artifacts/:entity/:project/:name': async () => ({
    method: 'POST',
    url: `/v1/preview/artifacts/acme/demo/${crypto.randomUUID()}`,
    payload: lines,
    type: 'application/jsonl',
  }),
  'PUT /v1/preview/adapters/:adapter_id/files/:name': async (app) => {
    const { id } = (
      await app.inject({ method: 'POST', url: '/v1/preview/adapters', headers: headers(), payload: '{}' })
    ).json<{ id: string }>();
    return {
      method: 'PUT',
      url: `/v1/preview/adapters/${id}/files/adapter_model.safetensors`,
      payload: 'x'.repeat(LARGE),
      type: 'application/octet-stream',
    };
  },
  'POST /v1/chat/completions': async () => ({ method: 'POST', url: '/v1/chat/completions', payload: padded(chat) }),
};

function headers(type = 'application/json'): Record<string, string> {
  return { authorization: `Bearer ${server.key}`, 'content-type': type };
}

describe.each(STORES)('with blobs in %s', (name) => {
  test.each(Object.keys(ROUTES))('%s takes a body of 1.2 MB', async (route) => {
    const { app } = apps.get(name)!;
    const { method, url, payload, type } = await ROUTES[route]!(app);
    expect(payload.length).toBeGreaterThanOrEqual(LARGE);
    const answer = await app.inject({ method, url, headers: headers(type), payload });
    expect(answer.statusCode, answer.body.slice(0, 300)).toBeLessThan(300);
  });
});

test('large trajectories are in the blobs that the service has, whichever thread wrote them', async () => {
  for (const [name, { app, blobs }] of apps) {
    const { method, url, payload } = await ROUTES['POST /v1/preview/training-jobs']!(app);
    const { id } = (await app.inject({ method, url, headers: headers(), payload })).json<{ id: string }>();
    const job = await server.store.jobs.get(id);
    const groups = await Array.fromAsync(blobs.getJsonLines(job!.dataKey!));
    expect((groups.at(-1) as { trajectories: unknown[] }).trajectories, name).toHaveLength(trajectories.length);
  }
});

test('a bucket that the thread cannot open ends the start with the reason', async () => {
  const { blobs } = apps.get('a bucket')!;
  const log = () => undefined;
  await checkBodyThread(blobs, log);
  vi.stubEnv('AWS_SECRET_ACCESS_KEY', '');
  await expect(checkBodyThread(blobs, log)).rejects.toThrow(
    /the credentials of the bucket are missing.*thread that reads large bodies/,
  );
  vi.stubEnv('AWS_SECRET_ACCESS_KEY', 'a secret of these tests');
});
