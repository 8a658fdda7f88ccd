/**
 * vLLM servers of an engine process: they load a new step before its job ends, and unload it when its model
 * is deleted, even while the engine is away.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { TokenEngine } from '@trainyard/engine';
import { EmbeddedTokenBackend, ScriptedRunner } from '@trainyard/engine/testing';
import { Trainyard } from '@trainyard/sdk';
import { PostgresCluster } from '@trainyard/store/testing';
import { TINY_ARCHITECTURES, writeTinyGguf } from '@trainyard/trainer/testing';
import { FakeVllm } from '@trainyard/vllm/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';

import type { OwnService } from '../../scripts/own-service.ts';
import { type ServicePart, ServiceParts } from '../support/service-parts.ts';

const SECRET = 'a secret for these tests, which is long enough';
const BASE = 'HuggingFaceTB/SmolLM2-135M-Instruct';
const LOAD = '/v1/load_lora_adapter';

const scratch = mkdtempSync(join(tmpdir(), 'trainyard-vllm-parts-'));
let cluster: PostgresCluster;
let parts: ServiceParts;
let fakes: FakeVllm[];
let api: OwnService;
let client: Trainyard;
let engine: ServicePart;
let vllm: Record<string, string>;

beforeAll(async () => {
  const programs = process.env['TRAINYARD_TEST_POSTGRES'];
  assert(programs !== undefined, 'the project `postgres` starts the server');
  cluster = await PostgresCluster.start(programs);
  const modelPath = join(scratch, 'tiny.gguf');
  writeTinyGguf(modelPath, TINY_ARCHITECTURES.llama);
  parts = new ServiceParts({
    database: await cluster.createSchema(),
    secret: SECRET,
    more: { TRAINYARD_MODEL: modelPath },
  });
  fakes = await Promise.all([openFake(), openFake()]);
  vllm = { TRAINYARD_VLLM: fakes.map(({ url }) => url).join(','), TRAINYARD_VLLM_CHECK: 'off' };
  api = await parts.api();
  engine = await parts.part('engine', { environment: vllm });
  await parts.part('trainer');
  client = new Trainyard({ baseUrl: api.url, apiKey: api.apiKey, maxRetries: 0 });
}, 200_000);
afterAll(async () => {
  await parts.close();
  await Promise.all(fakes.map((fake) => fake.close()));
  await cluster.stop();
  rmSync(scratch, { recursive: true, force: true });
});

async function openFake(): Promise<FakeVllm> {
  const ends = { eosTokenId: 258, endTokenIds: new Set([258]) };
  const tokens = new TokenEngine({ runner: new ScriptedRunner({ vocabSize: 259 }), ends });
  return await FakeVllm.open({
    brain: new EmbeddedTokenBackend({ modelId: 'base', engine: tokens }),
    policy: 'fcfs',
  });
}

/** A supervised job of two conversations. @returns its id, after its end */
async function trained(modelId: string, answers: readonly string[]): Promise<string> {
  const lines = answers.map((content) =>
    JSON.stringify({
      messages: [
        { role: 'user', content: 'say it' },
        { role: 'assistant', content },
      ],
    }),
  );
  const url = `data:application/jsonl;base64,${Buffer.from(lines.join('\n')).toString('base64')}`;
  const { id } = await client.sftJobs.create({ model_id: modelId, training_data_url: url });
  await expect.poll(async () => (await client.trainingJobs.retrieve(id)).status, { timeout: 60_000 }).toBe('succeeded');
  return id;
}

const member = async () => (await client.hosts.read()).sampling.hosts[0]!.members[0]!;
const loaded = () => fakes.map(({ adapters }) => adapters.size);

test('a new step is loaded on every server before its job ends, and hosts lists it for each', async () => {
  await expect.poll(async () => (await client.servedModels.list()).data.length).toBe(1);
  const model = await client.models.register({ project: 'p', name: 'learner', base_model: BASE });
  await trained(model.id, ['yes', 'no']);
  expect(loaded()).toEqual([1, 1]);
  const step = { model: 'local/p/learner', step: 1, since: expect.any(Number) };
  await expect.poll(async () => (await member()).members.map(({ steps }) => steps)).toEqual([[step], [step]]);
  expect((await member()).steps).toEqual([]);
});

test('a step refused by one server is a warning of its job, and hosts lists the server and the time', async () => {
  const model = await client.models.register({ project: 'p', name: 'refused', base_model: BASE });
  const error = { message: 'LoRA rank 8 is greater than max_lora_rank 4.' };
  fakes[1]!.failNext(LOAD, { kind: 'answer', status: 500, body: JSON.stringify({ error }) });
  const { data } = await client.trainingJobs.events(await trained(model.id, ['one', 'two']));
  const warnings = data.filter(({ type }) => type === 'warning').map((event) => event.data);
  expect(warnings).toEqual([
    expect.objectContaining({
      code: 'adapter_not_loaded',
      message: expect.stringMatching(/1 of 1 engines: 1 of 2 vLLM servers: .*rank 8 is greater/),
    }),
  ]);
  const refused = {
    model: 'local/p/refused',
    step: 1,
    reason: expect.stringMatching(/^rank 8/),
    until: expect.any(Number),
  };
  await expect
    .poll(async () => (await member()).members.map(({ refused_steps: steps }) => steps))
    .toEqual([[], [refused]]);
});

test('adapters of a model that is deleted while its engine is away are unloaded when the engine starts', async () => {
  expect(loaded()).toEqual([2, 1]);
  await engine.end('SIGKILL');
  const { data } = await client.models.list({ project: 'p' });
  for (const { id } of data) await client.models.delete(id);
  expect(loaded()).toEqual([2, 1]);
  engine = await parts.part('engine', { environment: vllm, dataDirectory: engine.dataDirectory });
  await expect.poll(loaded).toEqual([0, 0]);
}, 120_000);
