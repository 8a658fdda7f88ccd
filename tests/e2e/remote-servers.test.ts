import { mkdtempSync, rmSync } from 'node:fs';
import { execFile } from 'node:child_process';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

import { TokenEngine } from '@trainyard/engine';
import { EmbeddedTokenBackend, ScriptedRunner } from '@trainyard/engine/testing';
import { Trainyard } from '@trainyard/sdk';
import { type FakePolicy, FakeTinkerServer, HOSTED_LIKE, SKYRL_0_4 } from '@trainyard/tinker/testing';
import { OrtPolicyModel } from '@trainyard/trainer';
import { TINY_ARCHITECTURES, writeTinyGguf } from '@trainyard/trainer/testing';
import { FakeVllm, type FakeVllmOptions } from '@trainyard/vllm/testing';
import { afterAll, afterEach, describe, expect, it } from 'vitest';

import { CREDENTIALS, MemoryBucket, REGION } from '@trainyard/store/testing';

import { ownService, type OwnService } from '../../scripts/own-service.ts';
import { programPath } from '../../scripts/program-path.ts';
import { Authority } from '../support/network/authority.ts';
import { openTlsFront } from '../support/tls-front.ts';

/** The whole process with unusable remote servers: its start messages, and its end. */
const scratch = mkdtempSync(join(tmpdir(), 'trainyard-remote-'));
const modelPath = join(scratch, 'tiny.gguf');
writeTinyGguf(modelPath, TINY_ARCHITECTURES.llama);
const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});
afterAll(() => rmSync(scratch, { recursive: true }));

async function started(settings: Record<string, string>): Promise<OwnService> {
  const service = await ownService({
    environment: { TRAINYARD_MODEL: modelPath, TRAINYARD_MODEL_ID: 'tiny/llama', ...settings },
  });
  closing.push(() => service.close());
  return service;
}

/** Exit code, and the line with the reason; more than one line of this command is a fault. */
async function refusalOf(settings: Record<string, string>): Promise<{ code: number; line: string }> {
  const failure: unknown = await started(settings).catch((error: unknown) => error);
  if (!(failure instanceof Error)) throw new Error('the service has started');
  const [head, ...output] = failure.message.split('\n');
  const told = output.filter((line) => line.startsWith('trainyard: '));
  if (told.length !== 1) throw new Error(failure.message);
  expect(failure.message, 'no trace of a stack').not.toMatch(/\n\s+at /);
  return { code: Number(/exit code (\d+)/.exec(head!)?.[1]), line: told[0]! };
}

async function listening(listener: RequestListener): Promise<string> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closing.push(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** An address without a listener. */
async function deserted(): Promise<string> {
  const url = await listening(() => {});
  await closing.pop()!();
  return url;
}

/** Accepts connections without answering. */
const silence: RequestListener = () => {};

async function vllm(options: Partial<FakeVllmOptions> = {}, vocabSize = 259): Promise<string> {
  const ends = { eosTokenId: 258, endTokenIds: new Set([258]) };
  const engine = new TokenEngine({ runner: new ScriptedRunner({ vocabSize }), ends });
  const brain = new EmbeddedTokenBackend({ modelId: 'base', engine });
  const fake = await FakeVllm.open({ brain, policy: 'fcfs', ...options });
  closing.push(() => fake.close());
  return fake.url;
}

async function tinker(dialect = SKYRL_0_4, policy?: FakePolicy): Promise<FakeTinkerServer> {
  const server = await FakeTinkerServer.start(dialect, policy);
  closing.push(() => server.close());
  return server;
}

/** The tests of the packages `vllm` and `tinker` have the message of each fault; these have its way to the exit. */
describe('an unusable vLLM server ends the start', () => {
  it.each<[string, () => Promise<Record<string, string>>, RegExp]>([
    [
      'nobody answers',
      async () => ({ TRAINYARD_VLLM: await deserted() }),
      /127\.0\.0\.1:\d+ cannot be reached \(ECONNREFUSED\): start vLLM there, or correct --vllm$/,
    ],
    [
      'it lacks the base model',
      async () => ({ TRAINYARD_VLLM: await vllm(), TRAINYARD_VLLM_MODEL: 'other' }),
      /does not serve other \(it has: base\): correct --vllm-model$/,
    ],
    [
      'its vocabulary is another',
      async () => ({ TRAINYARD_VLLM: await vllm({}, 300), TRAINYARD_VLLM_CHECK: 'off' }),
      /Vocabulary mismatch: the sampling server has 300 tokens, the model file 259\. Serve the same model on both$/,
    ],
    [
      'its vocabulary is smaller',
      async () => ({ TRAINYARD_VLLM: await vllm({}, 100) }),
      /serves a different model than the file of --model: it has 100 tokens, the file has token 257; serve the same model/,
    ],
    [
      'its base model is another',
      async () => ({ TRAINYARD_VLLM: await vllm() }),
      /serves a different model than the file of --model: log-probabilities of 63 fixed tokens differ by .* nats .*; serve the same model on both/,
    ],
  ])('when %s', async (_what, settings, words) => {
    const { code, line } = await refusalOf(await settings());
    expect(line).toMatch(words);
    expect(code).toBe(1);
  });
});

describe('a Tinker server', () => {
  it.each<[string, () => Promise<Record<string, string>>, RegExp]>([
    [
      'the key is wrong',
      async () => ({
        TRAINYARD_TRAINER_URL: (await tinker(HOSTED_LIKE)).url,
        TRAINYARD_TRAINER_PROFILE: 'hosted',
        TRAINYARD_TRAINER_KEY: 'tml-wrong',
      }),
      /refuses the key \(HTTP 401\)\. Set TRAINYARD_TRAINER_KEY to a valid key$/,
    ],
    [
      'it lacks the base model',
      async () => ({ TRAINYARD_TRAINER_URL: (await tinker()).url, TRAINYARD_TRAINER_MODEL: 'other' }),
      /does not have the base model other. Correct --trainer-model.*tiny\/llama/,
    ],
  ])('ends the start when %s', async (_what, settings, words) => {
    const { code, line } = await refusalOf(await settings());
    expect(line).toMatch(words);
    expect(code, 'a wrong setting').toBe(2);
  });

  it.each<[string, () => Promise<string>, RegExp]>([
    ['is not there', deserted, /no Tinker server answers at \S+ \(ECONNREFUSED\)\. Start it, or correct --trainer-url/],
    [
      'hangs',
      () => listening(silence),
      /accepts connections but does not answer within 15 s: it hangs or is not a Tinker server/,
    ],
  ])('%s is reported at the start, which continues', async (_what, url, words) => {
    const service = await started({ TRAINYARD_TRAINER_URL: await url() });
    const told = service
      .output()
      .split('\n')
      .filter((line) => line.includes('; training jobs wait until then'));
    expect(told).toEqual([expect.stringMatching(words)]);
  });

  it('reports its largest rank at the start, and a registration above it is 422', async () => {
    const service = await started({ TRAINYARD_TRAINER_URL: (await tinker({ ...SKYRL_0_4, maxRank: 12 })).url });
    await expect.poll(() => service.output()).toContain('supports adapters up to rank 12');
    const client = new Trainyard({ baseUrl: service.url, apiKey: service.apiKey });
    const register = (name: string, rank: number) =>
      client.models.register({ project: 'demo', name, base_model: 'tiny/llama', lora: { rank } });
    await expect(register('large', 16)).rejects.toMatchObject({
      status: 422,
      message: expect.stringContaining('at most 12') as string,
    });
    expect((await register('fits', 12)).lora).toMatchObject({ rank: 12, alpha: 32 });
  });

  it('that goes away is reported in /health and in the job, with the time', async () => {
    const server = await tinker();
    const service = await started({ TRAINYARD_TRAINER_URL: server.url });
    const client = new Trainyard({ baseUrl: service.url, apiKey: service.apiKey });
    const health = async () => await (await fetch(new URL('/health', service.url))).text();
    expect(await health()).not.toContain('unreachable');
    await server.close();
    await expect.poll(health, { interval: 500 }).toMatch(/the trainer is unreachable since \d{4}-.*Z/);
    const model = await client.models.register({ project: 'demo', name: 'waits', base_model: 'tiny/llama' });
    const line = {
      messages: [
        { role: 'user', content: 'say it' },
        { role: 'assistant', content: 'it' },
      ],
    };
    const data = `data:application/jsonl,${encodeURIComponent(JSON.stringify(line))}`;
    const job = await client.sftJobs.create({ model_id: model.id, training_data_url: data });
    const warnings = async () => (await client.trainingJobs.retrieve(job.id)).warnings ?? [];
    await expect.poll(warnings, { timeout: 60_000, interval: 500 }).toMatchObject([
      {
        code: 'trainer_unreachable',
        message: expect.stringMatching(/unreachable since \d{4}-.*the job waits: /) as string,
      },
    ]);
    await client.trainingJobs.cancel(job.id);
  });

  it('with another base model fails the first job, with the distance and the remedy', async () => {
    const otherPath = join(scratch, 'other.gguf');
    writeTinyGguf(otherPath, TINY_ARCHITECTURES.llama, { seed: 22 });
    const lora = { rank: 8, alpha: 32, targets: ['q', 'k', 'v', 'o', 'gate', 'up', 'down'], initSeed: 1 } as const;
    const other = await OrtPolicyModel.load({ modelPath: otherPath, lora, numThreads: 1 });
    const server = await FakeTinkerServer.start(SKYRL_0_4, () => other);
    closing.push(() => server.close());
    const service = await started({ TRAINYARD_TRAINER_URL: server.url });
    const client = new Trainyard({ baseUrl: service.url, apiKey: service.apiKey, maxRetries: 0 });
    const model = await client.models.register({ project: 'p', name: 'learner', base_model: 'tiny/llama' });
    const turn = (content: string) => ({
      messages: [
        { role: 'user', content: 'say it' },
        { role: 'assistant', content },
      ],
    });
    const uploaded = await client.artifacts.upload(
      { entity: 'local', project: 'p', name: 'lines' },
      [turn('yes'), turn('no')],
      { file_name: 'lines.jsonl' },
    );
    const { id } = await client.sftJobs.create({ model_id: model.id, training_data_url: uploaded.url });
    await expect.poll(async () => (await client.trainingJobs.retrieve(id)).status).toBe('failed');
    const { data } = await client.trainingJobs.events(id);
    expect(JSON.stringify(data.at(-1))).toMatch(
      /base model of the Tinker server differs from the file in --model: log-probabilities of 63 fixed tokens differ by \S+ nats on average \(rounding explains at most 0\.15\)\. Use the same weights on both/,
    );
  });
});

describe('behind a certificate of a private authority', () => {
  const authority = new Authority({ isSinceYesterday: false });
  const trusting = { NODE_EXTRA_CA_CERTS: authority.certificate };
  const certificate = authority.issue('front', '127.0.0.1');
  afterAll(() => authority.remove());

  async function behindTls(url: string): Promise<string> {
    const front = await openTlsFront(url, certificate);
    closing.push(() => front.close());
    return front.url;
  }

  async function bucketSettings(): Promise<Record<string, string>> {
    const bucket = await MemoryBucket.start();
    closing.push(() => bucket.close());
    return {
      TRAINYARD_BUCKET: await behindTls(bucket.url),
      TRAINYARD_BUCKET_REGION: REGION,
      AWS_ACCESS_KEY_ID: CREDENTIALS.accessKeyId,
      AWS_SECRET_ACCESS_KEY: CREDENTIALS.secretAccessKey,
    };
  }

  async function trainerSettings(): Promise<Record<string, string>> {
    const policy: FakePolicy = (lora) => OrtPolicyModel.load({ modelPath, lora, numThreads: 1 });
    return { TRAINYARD_TRAINER_URL: await behindTls((await tinker(SKYRL_0_4, policy)).url) };
  }

  const PARTS: readonly [string, () => Promise<Record<string, string>>, string][] = [
    ['a bucket', bucketSettings, 'blobs'],
    [
      'a vLLM server',
      async () => ({ TRAINYARD_VLLM: await behindTls(await vllm()), TRAINYARD_VLLM_CHECK: 'off' }),
      'vllm',
    ],
    ['a trainer', trainerSettings, 'remote_trainer'],
  ];

  /** Findings of `trainyard doctor` about one kind of part. */
  async function doctorFinds(name: string, settings: Record<string, string>): Promise<(string | null)[]> {
    const main = programPath('packages/cli/src/main.ts');
    const dataDirectory = mkdtempSync(join(scratch, 'doctor-'));
    const { stdout } = await promisify(execFile)(
      process.execPath,
      ['--conditions=@trainyard/source', main, 'doctor', '--json'],
      {
        env: {
          ...process.env,
          TRAINYARD_DATA_DIR: dataDirectory,
          TRAINYARD_MODEL: modelPath,
          TRAINYARD_MODEL_ID: 'tiny/llama',
          TRAINYARD_PORT: '1',
          ...settings,
        },
      },
    ).catch((error: unknown) => error as { stdout: string });
    const { checks } = JSON.parse(stdout) as { checks: { name: string; problem: string | null }[] };
    return checks.filter((check) => check.name === name).map(({ problem }) => problem);
  }

  it.each(PARTS)(
    '%s ends the start with one line if the authority is not configured',
    async (_what, settings, name) => {
      const own = await settings();
      const { line } = await refusalOf(own);
      expect(line).toMatch(/certificate.*`NODE_EXTRA_CA_CERTS=FILE`/);
      const found = await doctorFinds(name, own);
      expect(found.length).toBeGreaterThan(0);
      for (const problem of found) expect(problem).toContain('NODE_EXTRA_CA_CERTS');
    },
  );

  it.each(PARTS)('%s passes the doctor if the authority is configured', async (_what, settings, name) => {
    const found = await doctorFinds(name, { ...(await settings()), ...trusting });
    expect(found.length).toBeGreaterThan(0);
    expect(found).toEqual(found.map(() => null));
  });

  it('a bucket stores large bodies, written by a thread', async () => {
    const service = await started({ ...(await bucketSettings()), ...trusting });
    const client = new Trainyard({ baseUrl: service.url, apiKey: service.apiKey, maxRetries: 0 });
    const model = await client.models.register({ project: 'p', name: 'large', base_model: 'tiny/llama' });
    const messages = [
      { role: 'user', content: 'say it' },
      { role: 'assistant', content: 'x'.repeat(1_500_000) },
    ];
    const logged = await client.trajectoryLogs.create(model.id, {
      split: 'val',
      trajectory_groups: [{ trajectories: [{ messages_and_choices: messages, reward: 1 }] }],
    } as never);
    expect(logged.num_trajectories).toBe(1);
  });

  it('a vLLM server samples', async () => {
    const settings = { TRAINYARD_VLLM: await behindTls(await vllm()), TRAINYARD_VLLM_CHECK: 'off' };
    const service = await started({ ...settings, ...trusting });
    const client = new Trainyard({ baseUrl: service.url, apiKey: service.apiKey, maxRetries: 0 });
    const answer = await client.completions.create({ model: 'tiny/llama', prompt: [11, 12], max_tokens: 3 });
    expect(answer.usage?.completion_tokens).toBeGreaterThan(0);
  });

  it('a trainer trains, and jobs do not wait for it', async () => {
    const service = await started({ ...(await trainerSettings()), ...trusting });
    expect(service.output()).toContain('training runs at https://127.0.0.1');
    const client = new Trainyard({ baseUrl: service.url, apiKey: service.apiKey, maxRetries: 0 });
    const model = await client.models.register({ project: 'p', name: 'learner', base_model: 'tiny/llama' });
    const lines = ['yes', 'no'].map((content) =>
      JSON.stringify({
        messages: [
          { role: 'user', content: 'say it' },
          { role: 'assistant', content },
        ],
      }),
    );
    const data = `data:application/jsonl;base64,${Buffer.from(lines.join('\n')).toString('base64')}`;
    const { id } = await client.sftJobs.create({ model_id: model.id, training_data_url: data });
    await expect
      .poll(async () => (await client.trainingJobs.retrieve(id)).status, { timeout: 60_000 })
      .toBe('succeeded');
  });
});
