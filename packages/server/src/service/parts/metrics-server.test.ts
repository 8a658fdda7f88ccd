import { afterEach, beforeEach, expect, test } from 'vitest';

import { Drain } from '../../seams/health/drain.ts';
import { ServiceHealth } from '../../seams/health/service-health.ts';
import { ServiceMetrics } from '../../seams/metrics/service-metrics.ts';
import { queueFigures } from '../../seams/metrics/queue-figures.ts';
import { TestServer } from '../../testing/test-server.ts';
import { createMetricsServer, type MetricsServerParts } from './metrics-server.ts';
import { resolveConfig } from '../settings/config.ts';

let server: TestServer;
beforeEach(async () => (server = await TestServer.start()));
afterEach(() => server.close());

function listener(parts: Partial<MetricsServerParts> = {}, drain = new Drain()) {
  const { store, blobs, training } = server;
  const metrics = new ServiceMetrics('trainer');
  metrics.sources = { training, queue: () => queueFigures(store), checkpoints: () => store.retention.sum() };
  const health = new ServiceHealth({ store, blobs, inference: null, training, drain });
  metrics.health.source = health;
  return createMetricsServer({ store, metrics, access: 'open', health, allowedHosts: [], ...parts });
}

test('a trainer reports its work and the waiting times of jobs, and nothing about sampling', async () => {
  const modelId = await server.makeModel('waiting');
  await server.store.jobs.enqueue({ modelId, kind: 'rl', config: {}, dataKey: 'groups/x' });
  const app = listener();
  const { body, statusCode, headers } = await app.inject('/metrics');
  expect([statusCode, headers['content-type']]).toEqual([200, expect.stringContaining('text/plain')]);
  expect(body).toContain('trainyard_jobs{status="queued"} 1');
  expect(body).toContain('trainyard_training_up 1');
  expect(Number(/^trainyard_oldest_queued_job_seconds (\S+)$/m.exec(body)?.[1])).toBeGreaterThanOrEqual(0);
  expect(body).not.toMatch(/vllm:|http_requests|inference_up/);
  await app.close();
});

test('a database that is away takes the figures of the queue along, and nothing else', async () => {
  const { training } = server;
  const metrics = new ServiceMetrics('trainer');
  const away = () => Promise.reject(new Error('it is away'));
  metrics.sources = { training, queue: away, checkpoints: away };
  const app = listener({ metrics });
  const { body, statusCode } = await app.inject('/metrics');
  expect(statusCode).toBe(200);
  expect(body).toContain('trainyard_training_up 1');
  expect(body).not.toMatch(/^trainyard_jobs\{/m);
  await app.close();
});

test('its health names the parts with problems, and there is nothing else at its address', async () => {
  const app = listener();
  expect((await app.inject('/health')).json()).toMatchObject({
    status: 'healthy',
    reasons: [],
    parts: { engines: null },
  });
  expect((await app.inject('/readyz')).json()).toEqual({ status: 'ready', reasons: [] });
  server.training.healthy = false;
  expect((await app.inject('/readyz')).statusCode).toBe(503);
  expect((await app.inject('/livez')).statusCode).toBe(200);
  expect((await app.inject('/health')).json()).toMatchObject({
    status: 'degraded',
    reasons: [{ part: 'training', reason: 'it is being started' }],
  });
  for (const url of ['/v1/models', '/', '/metrics/more']) expect((await app.inject(url)).statusCode).toBe(404);
  expect((await app.inject({ url: '/metrics', headers: { host: 'evil.example' } })).statusCode).toBe(403);
  await app.close();
});

test('it asks for the same key as a service that others reach, or has none at all', async () => {
  const keyed = listener({ access: 'key' });
  const admin = await server.makeKey('acme', ['admin']);
  const get = (key?: string) =>
    keyed.inject({ url: '/metrics', headers: key === undefined ? {} : { authorization: `Bearer ${key}` } });
  expect((await get()).statusCode).toBe(401);
  expect((await get(server.key)).statusCode).toBe(403);
  expect((await get(admin)).statusCode).toBe(200);
  expect((await keyed.inject('/health')).statusCode).toBe(200);
  await keyed.close();
  const off = listener({ access: 'off' });
  expect((await off.inject('/metrics')).statusCode).toBe(404);
  await off.close();
});

test('it listens on loopback by default, and only in a process without HTTP', () => {
  const read = (metricsListen: string, role = 'trainer') =>
    resolveConfig({ flags: { metricsListen, role, database: 'postgres://u@db/x' }, environment: {}, configPath: null })
      .metricsListen;
  expect(read('9100')).toEqual({ host: '127.0.0.1', port: 9100 });
  expect(read('[::1]:0')).toEqual({ host: '::1', port: 0 });
  expect(read('trainer.internal:9100')).toEqual({ host: 'trainer.internal', port: 9100 });
  for (const text of ['localhost', '70000', '1.2.3.4:', 'http://a:1']) expect(() => read(text)).toThrow(/metrics/i);
  expect(() => read('9100', 'api,engine')).toThrow('serves /metrics on its main port');
});
