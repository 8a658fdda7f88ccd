/**
 * A database whose processes are stopped (SIGSTOP) accepts connections without answering. Every wait ends,
 * and everything continues after SIGCONT.
 */
import assert from 'node:assert/strict';

import type { Health } from '@trainyard/protocol';
import { Trainyard } from '@trainyard/sdk';
import { PostgresCluster } from '@trainyard/store/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';

import type { OwnService } from '../../scripts/own-service.ts';
import { eventTypes } from '../support/event-types.ts';
import { tenLongGroups, WITH_LOGPROBS } from '../support/groups.ts';
import { type ServicePart, ServiceParts } from '../support/service-parts.ts';

const BASE = 'HuggingFaceTB/SmolLM2-135M-Instruct';
const NUM_STEPS = 10;
/** `docs/guide/operations.md`: the first half minute, and later. */
const FIRST_REFUSAL_MS = 25_000;
const LATER_REFUSAL_MS = 5_000;
const SLACK_MS = 3_000;

let cluster: PostgresCluster;
let parts: ServiceParts;
let api: OwnService;
let engine: ServicePart;
let trainer: ServicePart;
beforeAll(async () => {
  const programs = process.env['TRAINYARD_TEST_POSTGRES'];
  assert(programs !== undefined, 'the project `postgres` starts the server');
  cluster = await PostgresCluster.start(programs);
  const secret = 'a secret for these tests, which is long enough';
  parts = new ServiceParts({ database: await cluster.createSchema(), secret });
  engine = await parts.part('engine', { hasHealth: true });
  trainer = await parts.part('trainer', { hasHealth: true });
  api = await parts.api();
}, 300_000);
afterAll(async () => {
  cluster?.resume();
  await parts?.close();
  await cluster?.stop();
});

interface Answer {
  readonly status: number;
  readonly code: string | null;
  readonly retryAfter: string | null;
  readonly degraded: string | null;
  readonly ms: number;
}

async function send(method: string, path: string, body?: object, key = api.apiKey): Promise<Answer> {
  const startedAt = performance.now();
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json', connection: 'close' };
  const answer = await fetch(`${api.url}${path}`, {
    method,
    headers,
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    signal: AbortSignal.timeout(60_000),
  });
  const { error } = JSON.parse(await answer.text()) as { error?: { code: string } };
  return {
    status: answer.status,
    code: error?.code ?? null,
    retryAfter: answer.headers.get('retry-after'),
    degraded: answer.headers.get('x-trainyard-degraded'),
    ms: performance.now() - startedAt,
  };
}

const chat = (model: string, key?: string) =>
  send(
    'POST',
    '/chat/completions',
    { model, messages: [{ role: 'user', content: 'Hi.' }], max_tokens: 2, temperature: 0 },
    key,
  );

async function statusOf(place: string, path: string): Promise<number> {
  const signal = AbortSignal.timeout(8_000);
  return (await fetch(`${place}${path}`, { headers: { connection: 'close' }, signal })).status;
}

test('known keys and loaded models are served, writes are refused in time, and everything continues afterwards', async () => {
  assert(engine.healthUrl !== null && trainer.healthUrl !== null);
  const apiPlace = api.url.replace(/\/v1$/, '');
  const places = [apiPlace, engine.healthUrl, trainer.healthUrl];
  const client = new Trainyard({ baseUrl: api.url, apiKey: api.apiKey, maxRetries: 0 });
  const model = await client.models.register({ project: 'hanging', name: 'agent', base_model: BASE });
  const groups = await tenLongGroups(client, BASE, WITH_LOGPROBS);
  const settings = { learning_rate: 1e-4, gradient_steps: NUM_STEPS };
  const submit = () =>
    client.trainingJobs.create({ model_id: model.id, trajectory_groups: groups, experimental_config: settings });
  const first = await submit();
  expect(await client.trainingJobs.gradientSteps(first.id)).toHaveLength(NUM_STEPS);
  for (const name of [BASE, 'agent']) expect(await chat(name)).toMatchObject({ status: 200, degraded: null });
  const stream = await client.chat.completions.create({
    model: 'agent',
    stream: true,
    messages: [{ role: 'user', content: 'Tell a story.' }],
    max_tokens: 600,
    ignore_eos: true,
  });
  const chunks = stream[Symbol.asyncIterator]();
  await chunks.next();
  const second = await submit();
  for await (const { type } of client.trainingJobs.watch(second.id)) if (type === 'gradient_step') break;

  cluster.suspend();
  const stoppedAt = performance.now();
  const measured: string[] = [];
  const note = (what: string, { ms, status }: Answer) => measured.push(`${what}: ${status} after ${Math.round(ms)} ms`);
  try {
    const write = send('POST', '/preview/models', { project: 'hanging', name: 'new', base_model: BASE });
    for (const name of [BASE, 'agent', BASE]) {
      const answer = await chat(name);
      note(`chat under ${name}`, answer);
      expect(answer).toMatchObject({ status: 200, degraded: 'database' });
      expect(answer.ms).toBeLessThan(3_000 + SLACK_MS);
    }
    for (const place of places) {
      await expect.poll(() => statusOf(place, '/readyz')).toBe(503);
      expect(await statusOf(place, '/livez')).toBe(200);
    }
    const health = async () => (await (await fetch(`${apiPlace}/health`)).json()) as Health;
    await expect.poll(health).toMatchObject({ status: 'degraded', parts: { database: { is_up: false } } });
    const refused = await write;
    note('a write, first', refused);
    expect(refused).toMatchObject({ status: 503, code: 'store.unavailable' });
    expect(refused.retryAfter).not.toBeNull();
    expect(refused.ms).toBeLessThan(FIRST_REFUSAL_MS + SLACK_MS);
    const unknown = await Promise.all([chat('unknown'), chat(BASE, 'another-key')]);
    for (const [index, answer] of unknown.entries()) {
      note(index === 0 ? 'an unknown model' : 'an unknown key', answer);
      expect(answer).toMatchObject({ status: 503, code: 'store.unavailable' });
      expect(answer.ms).toBeLessThan(FIRST_REFUSAL_MS + SLACK_MS);
    }
    const whole = await chat('agent');
    note('chat under agent', whole);
    expect(whole).toMatchObject({ status: 200, degraded: 'database' });
    // A job retries its writes for 30 s.
    await new Promise((resolve) => setTimeout(resolve, Math.max(0, 35_000 - (performance.now() - stoppedAt))));
    const later = await Promise.all([
      send('POST', '/preview/models', { project: 'hanging', name: 'new', base_model: BASE }),
      send('POST', `/preview/training-jobs/${second.id}/cancel`),
    ]);
    for (const answer of later) {
      note('a write, later', answer);
      expect(answer).toMatchObject({ status: 503, code: 'store.unavailable' });
      expect(answer.ms).toBeLessThan(LATER_REFUSAL_MS + SLACK_MS);
    }
    let numChunks = 0;
    while (!(await chunks.next()).done) numChunks++;
    expect(numChunks).toBeGreaterThan(0);
  } finally {
    cluster.resume();
    console.log(measured.join('\n'));
  }

  for (const place of places) await expect.poll(() => statusOf(place, '/readyz')).toBe(200);
  await expect.poll(async () => (await chat('agent')).degraded).toBeNull();
  const resumedAt = performance.now();
  expect(await client.trainingJobs.gradientSteps(second.id)).toHaveLength(NUM_STEPS);
  const events = (await client.trainingJobs.events(second.id, { limit: 100 })).data;
  expect(eventTypes(events).filter((type) => type === 'training_ended')).toHaveLength(1);
  console.log(`the job ended ${Math.round(performance.now() - resumedAt)} ms after all were ready`);
  expect(await send('POST', '/preview/models', { project: 'hanging', name: 'new', base_model: BASE })).toMatchObject({
    status: 200,
  });
}, 300_000);
