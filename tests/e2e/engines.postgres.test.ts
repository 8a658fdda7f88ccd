/**
 * A service with HTTP, engines and trainers in separate processes: results equal those of one process bit for
 * bit, even while some of them die.
 */
import assert from 'node:assert/strict';

import { Trainyard } from '@trainyard/sdk';
import { PostgresCluster } from '@trainyard/store/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import type { OwnService } from '../../scripts/own-service.ts';
import { ART_TIMEOUT_MS, installedArtReleases, runArtClient } from '../support/art-client.ts';
import { scoredGroup } from '../support/groups.ts';
import { type ServicePart, ServiceParts } from '../support/service-parts.ts';
import { smallService } from '../support/small-service.ts';

const BASE = 'HuggingFaceTB/SmolLM2-135M-Instruct';
const SECRET = 'a secret for these tests, which is long enough';

let cluster: PostgresCluster;
beforeAll(async () => {
  const programs = process.env['TRAINYARD_TEST_POSTGRES'];
  assert(programs !== undefined, 'the project `postgres` starts the server');
  cluster = await PostgresCluster.start(programs);
});
afterAll(async () => {
  await cluster.stop();
});

function clientOf({ url, apiKey }: OwnService): Trainyard {
  return new Trainyard({ baseUrl: url, apiKey, maxRetries: 0 });
}

async function baseModels({ url, apiKey }: OwnService): Promise<string[]> {
  const answer = await fetch(`${url}/models`, { headers: { authorization: `Bearer ${apiKey}` } });
  return ((await answer.json()) as { data: { id: string }[] }).data.map(({ id }) => id);
}

/** All parts of a reply that depend on sampling. */
async function sampled(client: Trainyard, model: string, seed: number) {
  const { choices } = await client.chat.completions.create({
    model,
    messages: [{ role: 'user', content: `Count from ${seed}.` }],
    max_tokens: 24,
    n: 2,
    seed,
    temperature: 0.9,
    logprobs: true,
    top_logprobs: 3,
    return_token_ids: true,
  });
  return choices.map(({ token_ids, logprobs, finish_reason }) => ({ token_ids, logprobs, finish_reason }));
}

describe('two API processes, two engines and a trainer', () => {
  let parts: ServiceParts;
  let apis: [OwnService, OwnService];
  let one: Trainyard;
  let two: Trainyard;
  let engines: [ServicePart, ServicePart];
  beforeAll(async () => {
    parts = new ServiceParts({ database: await cluster.createSchema(), secret: SECRET });
    const first = await parts.api();
    apis = [first, await parts.api({ TRAINYARD_API_KEY: first.apiKey })];
    [one, two] = [clientOf(apis[0]), clientOf(apis[1])];
  }, 200_000);
  afterAll(async () => {
    await parts.close();
  });

  test('without an engine sampling is 503 with Retry-After, and the rest answers', async () => {
    const { url, apiKey } = apis[0];
    const ask = (path: string, init: RequestInit = {}) =>
      fetch(`${url}${path}`, {
        headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
        ...init,
      });
    const body = JSON.stringify({ messages: [{ role: 'user', content: 'Hi.' }] });
    for (const model of [{}, { model: BASE }]) {
      const refused = await ask('/chat/completions', {
        method: 'POST',
        body: JSON.stringify({ ...JSON.parse(body), ...model }),
      });
      expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '5']);
      expect(await refused.json()).toMatchObject({ error: { code: 'server.unavailable', param: 'model' } });
    }
    const unknown = await ask('/chat/completions', {
      method: 'POST',
      body: JSON.stringify({ ...JSON.parse(body), model: 'nobody' }),
    });
    expect(unknown.status).toBe(404);
    expect(await (await ask('/models')).json()).toEqual({ object: 'list', data: [] });
    const health = await ask('/health');
    expect(health.status).toBe(503);
    expect(await health.json()).toMatchObject({
      status: 'degraded',
      reasons: [{ part: 'inference', reason: 'no engine is available' }],
    });
    expect((await ask('/preview/hosts')).status).toBe(200);
    expect((await fetch(url.replace(/\/v1$/, '/'))).status).toBe(200);
  });

  test('new engines are found, and answers equal those of one process', async () => {
    engines = [await parts.part('engine'), await parts.part('engine')];
    for (const api of apis) await expect.poll(() => baseModels(api)).toEqual([BASE]);
    const whole = await smallService();
    try {
      for (const seed of [1, 2, 3, 4]) {
        const expected = await sampled(clientOf(whole), BASE, seed);
        expect(await sampled(one, BASE, seed)).toEqual(expected);
        expect(await sampled(two, BASE, seed)).toEqual(expected);
      }
    } finally {
      await whole.close();
    }
    const { sampling } = (await (
      await fetch(`${apis[0].url}/preview/hosts`, { headers: { authorization: `Bearer ${apis[0].apiKey}` } })
    ).json()) as { sampling: { hosts: { members: { url: string; state: string }[] }[] } };
    expect(sampling.hosts[0]!.members.map(({ url, state }) => `${url} ${state}`).toSorted()).toEqual(
      engines.map(({ engineUrl }) => `${engineUrl} up`).toSorted(),
    );
  });

  test('a training loop: a step trained on another machine is sampled from every engine, on policy', async () => {
    await parts.part('trainer');
    await one.models.register({ project: 'parts', name: 'agent', base_model: BASE });
    const model = await two.models.register({ project: 'parts', name: 'agent', base_model: BASE });
    const groups = await Promise.all([1, 2].map((seed) => scoredGroup(one, 'agent', { seed, prompt: `Say ${seed}.` })));
    const job = await two.trainingJobs.create({
      model_id: model.id,
      trajectory_groups: groups,
      experimental_config: { learning_rate: 1e-3, gradient_steps: 1 },
    });
    const steps = await one.trainingJobs.gradientSteps(job.id);
    expect(steps).toHaveLength(1);
    // Both engines have the step before the job ends, without a request for it.
    await expect.poll(async () => (await one.trainingJobs.retrieve(job.id)).finished_at).not.toBeNull();
    const { finished_at: endedAt } = await one.trainingJobs.retrieve(job.id);
    const loaded = async () => (await one.hosts.read()).sampling.hosts[0]!.members.map(({ steps: held }) => held);
    const held = [{ model: 'local/parts/agent', step: 1, since: expect.any(Number) }];
    await expect.poll(loaded).toEqual([held, held]);
    for (const [{ since } = { since: Infinity }] of await loaded()) expect(since).toBeLessThanOrEqual(endedAt!);
    // Sampled on one machine and trained on another: one policy.
    expect(Math.abs(steps[0]!['logprob_gap_mean']!)).toBeLessThan(1e-4);
    const trained = await sampled(one, 'agent:step1', 7);
    expect(await sampled(two, 'agent:step1', 7)).toEqual(trained);
    expect(trained).not.toEqual(await sampled(one, BASE, 7));
  }, 200_000);

  test('an engine killed in mid-stream ends its streams with one error; the next requests succeed', async () => {
    // Different prompts, so that both engines get some of them.
    const whole = async (index: number) => {
      const { choices, usage } = await one.chat.completions.create({
        model: BASE,
        messages: [{ role: 'user', content: `Tell a story about ${index}.` }],
        max_tokens: 300,
        ignore_eos: true,
        seed: index,
        temperature: 0.9,
        return_token_ids: true,
      });
      return { tokenIds: choices[0]!.token_ids, usage: usage.completion_tokens };
    };
    const wholes = Array.from({ length: 8 }, (_, index) => whole(index));
    const streams = Array.from({ length: 8 }, async (_, index) => {
      const stream = await one.chat.completions.create({
        model: BASE,
        messages: [{ role: 'user', content: `Tell a story about ${index}.` }],
        max_tokens: 1_000,
        ignore_eos: true,
        stream: true,
      });
      let numChunks = 0;
      try {
        for await (const _chunk of stream) {
          numChunks += 1;
          if (numChunks === 2) begun[index]!.resolve();
        }
        return { numChunks, error: null };
      } catch (error) {
        return { numChunks, error: error as Error & { code?: string } };
      }
    });
    const begun: PromiseWithResolvers<void>[] = Array.from({ length: 8 }, () => Promise.withResolvers());
    await Promise.all(begun.map(({ promise }) => promise));
    await engines[0].end('SIGKILL');
    const next = sampled(one, BASE, 1);
    const ended = await Promise.all(streams);
    // Each whole answer came, if needed from the other engine, with the tokens of its seed.
    const answers = await Promise.all(wholes);
    expect(answers.map(({ usage }) => usage)).toEqual(Array.from({ length: 8 }, () => 300));
    for (const index of [0, 1, 2, 3]) expect(await whole(index)).toEqual(answers[index]);
    const broken = ended.filter(({ error }) => error !== null);
    for (const { error } of broken) {
      expect(error?.code).toBe('engine.host_lost');
      expect(error?.message).toContain('the inference engine stopped while this request ran; retry');
    }
    expect(broken.length).toBeGreaterThan(0);
    expect(broken.length).toBeLessThan(8);
    expect(await next).toHaveLength(2);
    for (const seed of [1, 2, 3]) expect(await sampled(two, BASE, seed)).toHaveLength(2);
  }, 200_000);

  test('the engine ends the requests of a killed API process', async () => {
    const third = await parts.api({ TRAINYARD_API_KEY: apis[0].apiKey });
    const asked = await fetch(`${third.url}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${third.apiKey}`, 'content-type': 'application/json' },
      body: JSON.stringify({
        messages: [{ role: 'user', content: 'Go on and on.' }],
        max_tokens: 4_000,
        ignore_eos: true,
        stream: true,
      }),
    });
    await asked.body!.getReader().read();
    const numRequests = async () => {
      const answer = await fetch(`${apis[1].url}/preview/hosts`, {
        headers: { authorization: `Bearer ${third.apiKey}` },
      });
      return ((await answer.json()) as { sampling: { hosts: { num_requests: number }[] } }).sampling.hosts[0]!
        .num_requests;
    };
    await expect.poll(numRequests).toBe(1);
    process.kill(third.pid, 'SIGKILL');
    await expect.poll(numRequests).toBe(0);
  }, 100_000);

  test('an engine that is shut down finishes its requests and leaves the list', async () => {
    const another = await parts.part('engine');
    const last = engines[1];
    const story = two.chat.completions.create({
      model: BASE,
      messages: [{ role: 'user', content: 'Tell a long story.' }],
      max_tokens: 200,
      ignore_eos: true,
    });
    await expect.poll(async () => (await sampled(one, BASE, 5)).length).toBe(2);
    expect(await last.end('SIGTERM')).toBe(0);
    expect((await story).usage.completion_tokens).toBe(200);
    for (const seed of [1, 2, 3]) expect(await sampled(one, BASE, seed)).toHaveLength(2);
    expect(await another.end('SIGTERM')).toBe(0);
    await expect.poll(async () => (await fetch(`${apis[0].url}/health`)).status).toBe(503);
  }, 200_000);
});

test('without the secret a process does not start, and names the remedy', async () => {
  const database = await cluster.createSchema();
  for (const role of ['api', 'engine'])
    await expect(
      smallService({
        environment: { TRAINYARD_DATABASE: database, TRAINYARD_ROLE: role, TRAINYARD_ENGINE_SECRET: '' },
      }),
    ).rejects.toThrow('the environment variable TRAINYARD_ENGINE_SECRET is not set');
}, 100_000);

// One release: tests/clients runs both, and they send the same requests.
describe.each((await installedArtReleases()).slice(-1))('the unmodified openpipe-art client (%s)', (release) => {
  let parts: ServiceParts;
  afterAll(async () => {
    await parts.close();
  });

  test(
    'trains over two API processes, one engine and one trainer',
    async () => {
      parts = new ServiceParts({ database: await cluster.createSchema(), secret: SECRET });
      await parts.part('engine');
      await parts.part('trainer');
      const service = await parts.api();
      const second = await parts.api({ TRAINYARD_API_KEY: service.apiKey });
      const report = await runArtClient<{ steps: number[]; metrics: Record<string, number>[]; checkpoints: number[] }>(
        'art_client.py',
        service,
        release,
      );
      expect(report.steps).toEqual([1, 2]);
      expect(report.checkpoints).toEqual([0, 1, 2]);
      for (const metrics of report.metrics)
        expect(metrics['probs_corr'] ?? metrics['loss/probs_corr']).toBeGreaterThan(0.99);
      expect(await baseModels(second)).toContain(BASE);
    },
    ART_TIMEOUT_MS,
  );
});
