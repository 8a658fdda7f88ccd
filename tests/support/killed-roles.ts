/**
 * `kill -9` of each role in the middle of a job, and the time until its successor in the same data folder has
 * recovered everything.
 */
import { Trainyard } from '@trainyard/sdk';
import { expect } from 'vitest';

import type { OwnService } from '../../scripts/own-service.ts';
import { eventTypes } from './event-types.ts';
import { tenLongGroups, WITH_LOGPROBS } from './groups.ts';
import { ServiceParts } from './service-parts.ts';
import { smallService } from './small-service.ts';

const BASE = 'HuggingFaceTB/SmolLM2-135M-Instruct';
const NUM_STEPS = 10;
/** A lease lasts 30 s. A process that recovers its own work does not wait for its end. */
const AT_ONCE_MS = 5_000;

/** Times from the start of the successor, ms. */
export interface Recovery {
  readonly what: string;
  readonly readyMs: number;
  /** Until the job, or the role's own work, continued. */
  readonly continuedMs: number;
}

function clientOf({ url, apiKey }: OwnService): Trainyard {
  return new Trainyard({ baseUrl: url, apiKey, maxRetries: 0 });
}

async function submit(client: Trainyard, name: string): Promise<string> {
  const model = await client.models.register({ project: 'killed', name, base_model: BASE });
  const { id } = await client.trainingJobs.create({
    model_id: model.id,
    trajectory_groups: await tenLongGroups(client, BASE, WITH_LOGPROBS),
    experimental_config: { learning_rate: 1e-4, gradient_steps: NUM_STEPS },
  });
  for await (const { type } of client.trainingJobs.watch(id)) if (type === 'gradient_step') break;
  return id;
}

/** Resolves when an event shows that the job is running again. */
async function hasResumed({ url, apiKey }: OwnService, jobId: string): Promise<void> {
  const headers = { authorization: `Bearer ${apiKey}` };
  const feed = async () => {
    const { data } = (await (await fetch(`${url}/preview/events?limit=100`, { headers })).json()) as {
      data: { type: string; job_id?: string | null }[];
    };
    return data.filter(({ type, job_id }) => type === 'job_resumed' && job_id === jobId).length;
  };
  await expect.poll(feed, { timeout: 60_000, interval: 20 }).toBeGreaterThan(0);
}

/** Checks that every step occurred once, with one end. */
async function endsWhole(client: Trainyard, jobId: string): Promise<void> {
  expect(await client.trainingJobs.gradientSteps(jobId)).toHaveLength(NUM_STEPS);
  const types = eventTypes((await client.trainingJobs.events(jobId, { limit: 100 })).data);
  expect(types.filter((type) => type !== 'gradient_step')).toEqual(['training_started', 'training_ended']);
}

async function answered({ url, apiKey }: OwnService): Promise<number> {
  const answer = await fetch(`${url}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: BASE, messages: [{ role: 'user', content: 'Hi.' }], max_tokens: 2 }),
  });
  await answer.text();
  return answer.status;
}

/** One process of all roles. @param environment of its database and its blobs */
export async function killWhole(what: string, environment: Record<string, string>): Promise<Recovery> {
  const first = await smallService({ environment });
  let second: OwnService | null = null;
  try {
    const jobId = await submit(clientOf(first), 'whole');
    process.kill(first.pid, 'SIGKILL');
    await first.stop();
    const startedAt = performance.now();
    const { dataDirectory, apiKey } = first;
    second = await smallService({ dataDirectory, environment: { ...environment, TRAINYARD_API_KEY: apiKey } });
    const readyMs = performance.now() - startedAt;
    await hasResumed(second, jobId);
    const continuedMs = performance.now() - startedAt;
    expect(continuedMs - readyMs).toBeLessThan(AT_ONCE_MS);
    await endsWhole(clientOf(second), jobId);
    return { what: `${what}: all roles`, readyMs, continuedMs };
  } finally {
    await second?.stop();
    await first.close();
  }
}

/**
 * An API process, an engine and a trainer, killed in turns.
 * @param environment of their blobs; default a shared folder
 */
export async function killRoles(
  what: string,
  database: string,
  environment: Record<string, string> = {},
): Promise<Recovery[]> {
  const secret = 'a secret for these tests, which is long enough';
  const parts = new ServiceParts({ database, secret, more: environment });
  const recoveries: Recovery[] = [];
  try {
    let engine = await parts.part('engine', { hasHealth: true });
    let trainer = await parts.part('trainer', { hasHealth: true });
    let api = await parts.api();
    await expect.poll(() => answered(api), { timeout: 60_000 }).toBe(200);

    const trained = await submit(clientOf(api), 'trainer');
    await trainer.end('SIGKILL');
    let startedAt = performance.now();
    trainer = await parts.part('trainer', { dataDirectory: trainer.dataDirectory, hasHealth: true });
    let readyMs = performance.now() - startedAt;
    await hasResumed(api, trained);
    let continuedMs = performance.now() - startedAt;
    recoveries.push({ what: `${what}: trainer`, readyMs, continuedMs });
    expect(continuedMs - readyMs).toBeLessThan(AT_ONCE_MS);
    await endsWhole(clientOf(api), trained);

    await engine.end('SIGKILL');
    startedAt = performance.now();
    engine = await parts.part('engine', { dataDirectory: engine.dataDirectory, hasHealth: true });
    readyMs = performance.now() - startedAt;
    await expect.poll(() => answered(api), { timeout: 60_000, interval: 20 }).toBe(200);
    continuedMs = performance.now() - startedAt;
    recoveries.push({ what: `${what}: engine`, readyMs, continuedMs });
    expect(continuedMs - readyMs).toBeLessThan(AT_ONCE_MS);

    const kept = await submit(clientOf(api), 'api');
    process.kill(api.pid, 'SIGKILL');
    await api.stop();
    startedAt = performance.now();
    api = await parts.api({ TRAINYARD_API_KEY: api.apiKey }, { dataDirectory: api.dataDirectory });
    readyMs = performance.now() - startedAt;
    await expect.poll(() => answered(api), { timeout: 60_000, interval: 20 }).toBe(200);
    continuedMs = performance.now() - startedAt;
    recoveries.push({ what: `${what}: API process`, readyMs, continuedMs });
    expect(continuedMs - readyMs).toBeLessThan(AT_ONCE_MS);
    await endsWhole(clientOf(api), kept);
    return recoveries;
  } finally {
    await parts.close();
  }
}

/** One line for each, for the output of the tests. */
export function linesOf(recoveries: readonly Recovery[]): string {
  const seconds = (ms: number) => (ms / 1000).toFixed(1);
  return recoveries
    .map(
      ({ what, readyMs, continuedMs }) =>
        `${what}: ready after ${seconds(readyMs)} s, continued after ${seconds(continuedMs)} s`,
    )
    .join('\n');
}
