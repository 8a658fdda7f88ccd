import { StoreError } from '@trainyard/store';
import type { BackendMember } from '@trainyard/backend';
import type { Health, Readiness } from '@trainyard/protocol';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';

import { createServer } from '../../gateway/create-server.ts';
import { TestServer } from '../../testing/test-server.ts';
import { Drain } from './drain.ts';
import { ServiceHealth } from './service-health.ts';

let server: TestServer;
beforeEach(async () => (server = await TestServer.start()));
afterEach(() => server.close());

function listener(drain = new Drain()) {
  const { store, blobs, inference, training, transfers } = server;
  return createServer({ store, blobs, inference, training, exports: transfers, imports: transfers, drain });
}

const GONE = new StoreError('store.unavailable', 'database db.internal: connection refused');

test('a database that is away makes a process not ready, which lives on; a busy one does not', async () => {
  const app = listener();
  const ready = async () => {
    const { statusCode, headers, body } = await app.inject('/readyz');
    return { statusCode, retry: headers['retry-after'], ...(JSON.parse(body) as Readiness) };
  };
  const ping = vi.spyOn(server.store.database, 'ping').mockRejectedValue(new StoreError('store.busy', 'locked'));
  expect(await ready()).toEqual({ statusCode: 200, retry: undefined, status: 'ready', reasons: [] });
  await app.close();

  const other = listener();
  ping.mockRejectedValue(GONE);
  const answer = await other.inject('/readyz');
  expect([answer.statusCode, answer.headers['retry-after']]).toEqual([503, '1']);
  expect(answer.json()).toEqual({
    status: 'not_ready',
    reasons: [{ part: 'store', reason: 'the database has not answered for 0 s' }],
  });
  expect((await other.inject('/livez')).json()).toEqual({ status: 'alive' });
  const health = (await other.inject('/health')).json<Health>();
  expect(health).toMatchObject({
    status: 'degraded',
    reasons: [{ part: 'store' }],
    parts: { database: { is_up: false }, bucket: null, trainers: null, draining: false },
  });
  const metrics = (await other.inject('/metrics')).body;
  expect(metrics).toMatch(/^trainyard_ready\{[^}]*\} 0$/m);
  expect(metrics).toMatch(/^trainyard_database_up\{[^}]*\} 0$/m);
  expect(metrics).not.toMatch(/^trainyard_bucket_up\{/m);
  await other.close();
});

test('failed sampling is not ready; failed training is only degraded', async () => {
  const app = listener();
  server.training.healthy = false;
  expect((await app.inject('/readyz')).statusCode).toBe(200);
  expect((await app.inject('/health')).json<Health>().parts.trainers).toEqual({ ready: 0, total: 1 });
  server.inference.healthy = false;
  const { statusCode, body } = await app.inject('/readyz');
  expect([statusCode, (JSON.parse(body) as Readiness).reasons.map(({ part }) => part)]).toEqual([503, ['inference']]);
  expect((await app.inject('/livez')).statusCode).toBe(200);
  await app.close();
});

test('engines and trainers are counted: one of two is degraded, and one that ends is not missed', async () => {
  const members = [member('one', {}), member('two', { state: 'down', trouble: 'it does not answer' })];
  Object.assign(server.inference, { members: () => members });
  await server.store.members.register(
    {
      role: 'trainer',
      url: null,
      version: '1',
      baseModels: [],
      capacity: 1,
      adapterDigests: [],
      isDraining: false,
      machineTrouble: null,
    },
    60_000,
  );
  const app = listener();
  const health = async () => (await app.inject('/health')).json<Health>();
  expect(await health()).toMatchObject({
    status: 'degraded',
    reasons: [{ part: 'engines', reason: '1 of 2 engines accept requests' }],
    parts: { engines: { ready: 1, total: 2 }, trainers: { ready: 1, total: 1 } },
  });
  const metrics = (await app.inject('/metrics')).body;
  expect(metrics).toMatch(/^trainyard_engines\{state="ready"[^}]*\} 1$/m);
  expect(metrics).toMatch(/^trainyard_engines\{state="registered"[^}]*\} 2$/m);
  members[1] = member('two', { state: 'draining' });
  await server.store.members.renew(
    'trainer',
    { baseModels: [], capacity: 0, adapterDigests: [], isDraining: false, machineTrouble: null },
    60_000,
  );
  // Another process, because this one has just read the members.
  const other = listener();
  expect((await other.inject('/health')).json<Health>()).toMatchObject({
    reasons: [{ part: 'trainers', reason: '0 of 1 trainers accept jobs' }],
    parts: { engines: { ready: 1, total: 1 } },
  });
  await other.close();
  await app.close();
});

test('the members are read once for concurrent requests, and trainers that are not known in time are null', async () => {
  const { store, blobs, inference, training } = server;
  const listMembers = vi.spyOn(store.members, 'list');
  const health = new ServiceHealth({ store, blobs, inference, training, drain: new Drain() });
  const reports = await Promise.all(Array.from({ length: 20 }, () => health.report()));
  for (const { parts } of [...reports, await health.report()]) expect(parts.trainers).toEqual({ ready: 1, total: 1 });
  expect(listMembers).toHaveBeenCalledTimes(1);
  listMembers.mockReturnValue(new Promise(() => undefined));
  const other = new ServiceHealth({ store, blobs, inference, training, drain: new Drain() });
  const startedAt = performance.now();
  expect((await other.report()).parts.trainers).toBeNull();
  expect(performance.now() - startedAt).toBeLessThan(10_000);
});

test('a bucket that is away, or has lost its mark, is degraded and ready; an answer for another key does not count', async () => {
  const { store, inference, training } = server;
  const id = await store.files.claimBlobs('one');
  let has: (key: string) => Promise<boolean> = async (key) => key === `places/${id}`;
  const location = {
    kind: 's3',
    url: 'http://127.0.0.1:9/b',
    region: 'r',
    cacheDirectory: '/c',
    cacheBytes: 1,
  } as const;
  const healthOf = async () => {
    const blobs = { location, has: (key: string) => has(key) };
    const health = new ServiceHealth({ store, blobs, inference, training, drain: new Drain() });
    return { ...(await health.report()), ready: (await health.readiness()).status };
  };
  expect(await healthOf()).toMatchObject({ status: 'healthy', parts: { bucket: { is_up: true, reason: null } } });
  for (const broken of [async () => false, () => Promise.reject(new StoreError('store.unavailable', 's3.internal'))]) {
    has = broken;
    const reason = 'the bucket has not answered for 0 s';
    expect(await healthOf()).toMatchObject({
      status: 'degraded',
      reasons: [{ part: 'bucket', reason }],
      parts: { bucket: { is_up: false, reason } },
      ready: 'ready',
    });
  }
});

test('a process that ends reports it while it still answers, and each answer closes its connection', async () => {
  const drain = new Drain();
  const app = listener(drain);
  const chat = (stream: boolean) =>
    app.inject({
      method: 'POST',
      url: '/v1/chat/completions',
      headers: { authorization: `Bearer ${server.key}` },
      payload: { messages: [{ role: 'user', content: 'hello' }], stream },
    });
  expect((await chat(false)).headers['connection']).not.toBe('close');
  drain.begin();
  const answer = await app.inject('/readyz');
  expect([answer.statusCode, answer.json<Readiness>().reasons[0]?.part]).toEqual([503, 'draining']);
  for (const isStream of [false, true]) {
    const { statusCode, headers } = await chat(isStream);
    expect([statusCode, headers['connection']]).toEqual([200, 'close']);
  }
  expect((await app.inject('/livez')).headers['connection']).toBe('close');
  expect((await app.inject('/health')).json<Health>()).toMatchObject({
    reasons: [{ part: 'draining' }],
    parts: { draining: true },
  });
  expect((await app.inject('/metrics')).body).toMatch(/^trainyard_draining\{[^}]*\} 1$/m);
  await app.close();
});

function member(name: string, fields: Partial<BackendMember>): BackendMember {
  return {
    name,
    kind: 'engine',
    state: 'up',
    trouble: null,
    version: '1',
    numChoices: 0,
    kvUse: null,
    numAdapters: 0,
    numRequests: 0,
    numFailures: 0,
    numLosses: 0,
    numTokens: 0,
    ...fields,
  };
}
