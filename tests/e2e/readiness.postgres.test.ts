/**
 * Probes, load balancers and scalers: processes of a service report liveness, readiness, shutdown, and the
 * length of the queue.
 */
import assert from 'node:assert/strict';
import { setTimeout as delay } from 'node:timers/promises';

import type { Health, Readiness } from '@trainyard/protocol';
import { Trainyard } from '@trainyard/sdk';
import { PostgresCluster } from '@trainyard/store/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';

import type { OwnService } from '../../scripts/own-service.ts';
import { tenLongGroups } from '../support/groups.ts';
import { type ServicePart, ServiceParts } from '../support/service-parts.ts';

const BASE = 'HuggingFaceTB/SmolLM2-135M-Instruct';
const SECRET = 'a secret for these tests, which is long enough';
const GRACE_MS = 3_000;

let cluster: PostgresCluster;
let parts: ServiceParts;
let api: OwnService;
let engine: ServicePart;
let trainer: ServicePart;
beforeAll(async () => {
  const programs = process.env['TRAINYARD_TEST_POSTGRES'];
  assert(programs !== undefined, 'the project `postgres` starts the server');
  cluster = await PostgresCluster.start(programs);
  parts = new ServiceParts({ database: await cluster.createSchema(), secret: SECRET });
  engine = await parts.part('engine', { hasHealth: true });
  trainer = await parts.part('trainer', { hasHealth: true });
  api = await parts.api({ TRAINYARD_DRAIN_GRACE_MS: `${GRACE_MS}` });
}, 300_000);
afterAll(async () => {
  await parts.close();
  await cluster.stop();
});

/** Status of a health path of a process; null without an answer. A new connection each, like a probe. */
async function statusOf(place: string, path: string): Promise<number | null> {
  const options = { headers: { connection: 'close' }, signal: AbortSignal.timeout(8_000) };
  return await fetch(`${place}${path}`, options).then(
    ({ status }) => status,
    () => null,
  );
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

const apiPlace = () => api.url.replace(/\/v1$/, '');

async function figures(place: string): Promise<string> {
  return await (await fetch(`${place}/metrics`)).text();
}

test('the scaling signal exists before the first request, and every process is ready', async () => {
  assert(engine.healthUrl !== null && trainer.healthUrl !== null);
  expect(await figures(engine.healthUrl)).toMatch(/^vllm:num_requests_waiting\{[^}]*\} 0$/m);
  for (const place of [apiPlace(), engine.healthUrl, trainer.healthUrl])
    expect([place, await statusOf(place, '/readyz'), await statusOf(place, '/livez')]).toEqual([place, 200, 200]);
  const health = (await (await fetch(`${apiPlace()}/health`)).json()) as Health;
  expect(health.parts).toEqual({
    database: { is_up: true, reason: null },
    bucket: null,
    engines: { ready: 1, total: 1 },
    trainers: { ready: 1, total: 1 },
    draining: false,
  });
});

test('a killed trainer that restarts in its own folder has its job back at once', async () => {
  const client = new Trainyard({ baseUrl: api.url, apiKey: api.apiKey, maxRetries: 0 });
  const model = await client.models.register({ project: 'ready', name: 'agent', base_model: BASE });
  const job = await client.trainingJobs.create({
    model_id: model.id,
    trajectory_groups: await tenLongGroups(client, 'agent'),
    experimental_config: { learning_rate: 1e-4, gradient_steps: 4 },
  });
  for await (const event of client.trainingJobs.watch(job.id)) if (event.type === 'gradient_step') break;
  await trainer.end('SIGKILL');
  trainer = await parts.part('trainer', { dataDirectory: trainer.dataDirectory, hasHealth: true });
  const startedAt = performance.now();
  const feed = async () => {
    const headers = { authorization: `Bearer ${api.apiKey}` };
    return await (await fetch(`${api.url}/preview/events?limit=100`, { headers })).text();
  };
  await expect.poll(feed, { timeout: 60_000 }).toContain('job_resumed');
  expect(performance.now() - startedAt).toBeLessThan(5_000);
  expect(await client.trainingJobs.gradientSteps(job.id)).toHaveLength(4);
}, 200_000);

test('while the database is away no process is ready, all of them live, and known keys and models are served', async () => {
  assert(engine.healthUrl !== null && trainer.healthUrl !== null);
  const places = [apiPlace(), engine.healthUrl, trainer.healthUrl];
  const send = async (path: string, body: object, key = api.apiKey) => {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
    const answer = await fetch(`${api.url}${path}`, { method: 'POST', headers, body: JSON.stringify(body) });
    await answer.text();
    return [answer.status, answer.headers.get('x-trainyard-degraded')];
  };
  const chat = (model: string, key?: string) =>
    send('/chat/completions', { model, messages: [{ role: 'user', content: 'Hi.' }], max_tokens: 2 }, key);
  for (const model of [BASE, 'agent']) expect(await chat(model)).toEqual([200, null]);
  await cluster.goAway();
  for (const model of [BASE, 'agent', BASE]) expect(await chat(model)).toEqual([200, 'database']);
  expect((await chat('unknown'))[0]).toBe(503);
  expect((await chat(BASE, 'another-key'))[0]).toBe(503);
  expect((await send('/preview/models', { project: 'ready', name: 'new', base_model: BASE }))[0]).toBe(503);
  for (const place of places) {
    await expect.poll(() => statusOf(place, '/readyz')).toBe(503);
    expect(await statusOf(place, '/livez')).toBe(200);
  }
  const health = (await (await fetch(`${apiPlace()}/health`)).json()) as Health;
  expect(health).toMatchObject({ status: 'degraded', parts: { database: { is_up: false }, trainers: null } });
  expect(await figures(engine.healthUrl)).toMatch(/^trainyard_ready\{[^}]*\} 0$/m);
  await cluster.comeBack();
  for (const place of places) await expect.poll(() => statusOf(place, '/readyz')).toBe(200);
  await expect.poll(() => chat('agent')).toEqual([200, null]);
}, 120_000);

test('an API process that shuts down first reports it: its port answers during the grace period, then closes', async () => {
  process.kill(api.pid, 'SIGTERM');
  const startedAt = performance.now();
  await expect.poll(() => statusOf(apiPlace(), '/readyz'), { interval: 20 }).toBe(503);
  const { reasons } = (await (await fetch(`${apiPlace()}/readyz`)).json()) as Readiness;
  expect(reasons.map(({ part }) => part)).toEqual(['draining']);
  const answer = await fetch(`${api.url}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${api.apiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({ messages: [{ role: 'user', content: 'Hi.' }], max_tokens: 2 }),
  });
  expect([answer.status, answer.headers.get('connection')]).toEqual([200, 'close']);
  expect(performance.now() - startedAt).toBeLessThan(GRACE_MS);
  await delay(GRACE_MS - (performance.now() - startedAt));
  await expect.poll(() => statusOf(apiPlace(), '/livez')).toBeNull();
  await expect.poll(() => isAlive(api.pid)).toBe(false);
}, 60_000);
