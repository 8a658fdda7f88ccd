/**
 * Follows `docs/guide/scaling.md` and `docs/guide/operations.md` with their own commands: PostgreSQL, a
 * bucket, two API processes, two engines and trainers. Addresses are those of this machine, and
 * `/var/lib/trainyard` is one folder per process; the commands are otherwise unchanged.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from 'node:fs';
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

import { TokenEngine } from '@trainyard/engine';
import { EmbeddedTokenBackend, ScriptedRunner } from '@trainyard/engine/testing';
import { Trainyard } from '@trainyard/sdk';
import { CREDENTIALS, PostgresCluster, S3Server } from '@trainyard/store/testing';
import { FakeTinkerServer, SKYRL_0_4 } from '@trainyard/tinker/testing';
import { FakeVllm } from '@trainyard/vllm/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { Balancer } from '../support/balancer.ts';
import { isRun } from '../support/doc-blocks.ts';
import { tenLongGroups, WITH_LOGPROBS } from '../support/groups.ts';
import { commandsOf, type GuideCommand, GuideProcess } from '../support/guide-commands.ts';
import { testModel } from '../support/model.ts';
import { smallService } from '../support/small-service.ts';

const [SCALING, OPERATIONS] = ['docs/guide/scaling.md', 'docs/guide/operations.md'];
const VLLM =
  'it needs vLLM (6 to 12 GB): `npm run lab -- vllm` runs such servers, `npm run lab -- scale-out` checks the flags with its parser';
const SKYRL = 'it needs SkyRL (2 GB): `npm run lab -- skyrl` runs it';
const REMOTE = 'another machine is needed';
/** Commands that no test on one machine can run unchanged, each with its reason. */
const NOT_RUN: readonly (readonly [begin: string, reason: string])[] = [
  ['KEY="$(openssl rand -hex 32)"', VLLM],
  ['VLLM_ALLOW_RUNTIME_LORA_UPDATING=True vllm serve', VLLM],
  ['for gpu in 0 1 2 3; do', 'it needs four GPUs'],
  ['CUDA_VISIBLE_DEVICES=$gpu', 'it needs four GPUs'],
  ['done', 'it needs four GPUs'],
  ['uv pip install', SKYRL],
  ['python -m skyrl.tinker.api', SKYRL],
  ['ssh -N -L', REMOTE],
  ['rsync -a', REMOTE],
  [
    'TRAINYARD_TRAINER_KEY=tml-…',
    'it needs an account of the hosted service; `remote-servers.test.ts` uses a stand-in',
  ],
  [
    'trainyard serve --role engine --host 127.0.0.1 --port 8420 --engine-url',
    'it needs a proxy with TLS: `encrypted-engines.networks.test.ts`',
  ],
  ['NODE_EXTRA_CA_CERTS=', 'it needs a proxy with TLS: `encrypted-engines.networks.test.ts`'],
  ['export OTEL_', 'variables: `observed.postgres.test.ts` has a collector'],
  ['npm run bf16', 'it fetches a library of 54 MB and needs a processor with bf16: `npm run lab -- bf16`'],
  [
    'npm start -- --precision bf16',
    'it fetches a library of 54 MB and needs a processor with bf16: `npm run lab -- bf16`',
  ],
];

const scratch = mkdtempSync(join(tmpdir(), 'trainyard-guide-'));
const commands = [...commandsOf(SCALING!), ...commandsOf(OPERATIONS!)];
const used = new Set<GuideCommand>();
const processes = new Set<GuideProcess>();
let cluster: PostgresCluster;
let server: S3Server;
let database: string;
let bucket: string;
/** Injected fault of the bucket. */
let bucketFault: 'none' | 'slow' | 'hanging' = 'none';
let bucketWay: ReturnType<typeof createServer>;
beforeAll(async () => {
  const { TRAINYARD_TEST_S3_SERVER: program, TRAINYARD_TEST_POSTGRES: programs } = process.env;
  assert(program !== undefined && programs !== undefined, '`npm run lab -- s3` starts the servers');
  [server, cluster] = await Promise.all([S3Server.start(program), PostgresCluster.start(programs)]);
  database = await cluster.createSchema();
  bucketWay = await wayTo(server.origin);
  bucket = (await server.createBucket()).replace(server.origin, originOf(bucketWay));
  symlinkSync(testModel().small, join(scratch, 'model.gguf'));
  // As in the clone's folder, where `npx` finds the command.
  symlinkSync(resolve(import.meta.dirname, '../../node_modules'), join(scratch, 'node_modules'));
}, 200_000);
afterAll(async () => {
  await Promise.all([...processes].map((one) => one.end('SIGKILL')));
  bucketWay?.closeAllConnections();
  bucketWay?.close();
  await cluster?.stop();
  await server?.stop();
  rmSync(scratch, { recursive: true, force: true });
});

function originOf(listening: ReturnType<typeof createServer>): string {
  return `http://127.0.0.1:${(listening.address() as AddressInfo).port}`;
}

/** HTTP proxy for the bucket, with {@link bucketFault}. */
async function wayTo(target: string): Promise<ReturnType<typeof createServer>> {
  const { hostname, port } = new URL(target);
  const proxy = createServer((incoming, answer) => {
    const { method, url: path, headers } = incoming;
    const pass = (): void => {
      const outgoing = request({ hostname, port, method, path, headers }, (theirs) => {
        answer.writeHead(theirs.statusCode ?? 502, theirs.headers);
        theirs.pipe(answer);
      });
      outgoing.once('error', () => answer.destroy());
      incoming.pipe(outgoing);
    };
    if (bucketFault === 'none') pass();
    else if (bucketFault === 'slow') setTimeout(pass, 500);
  }).listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  return proxy;
}

/** The only command of the pages with this text, or this start. */
function command(begin: string): GuideCommand {
  const exact = commands.filter(({ text }) => text === begin);
  const found = exact.length > 0 ? exact : commands.filter(({ text }) => text.startsWith(begin));
  expect(found, begin).toHaveLength(1);
  used.add(found[0]!);
  return found[0]!;
}

const quoted = (text: string): string => `'${text}'`;

/** Starts a command with its block's exports, and with replaced addresses. */
function run(
  { text, exports }: GuideCommand,
  edits: Readonly<Record<string, string>> = {},
  env: Record<string, string> = {},
): GuideProcess {
  const all = {
    'postgres://trainyard@db.internal/trainyard': quoted(database),
    'https://s3.internal/trainyard': bucket,
    'AWS_ACCESS_KEY_ID=…': `AWS_ACCESS_KEY_ID=${CREDENTIALS.accessKeyId}`,
    'AWS_SECRET_ACCESS_KEY=…': `AWS_SECRET_ACCESS_KEY=${quoted(CREDENTIALS.secretAccessKey)}`,
    'TRAINYARD_ENGINE_SECRET=…': `TRAINYARD_ENGINE_SECRET=${'0123456789abcdef'.repeat(4)}`,
    '10.0.0.7': '127.0.0.1',
    ...edits,
  };
  let script = [...exports, text].join('\n');
  for (const [from, to] of Object.entries(all)) script = script.replaceAll(from, to);
  // Several processes on one machine cannot share a port, and nothing is fetched.
  const started = new GuideProcess(script, {
    cwd: scratch,
    env: { TRAINYARD_PORT: '0', ...env },
  });
  processes.add(started);
  return started;
}

/** Runs a command to its end. @returns its output */
async function ended(...args: Parameters<typeof run>): Promise<string> {
  const running = run(...args);
  const code = await running.ended();
  expect({ at: args[0].at, text: args[0].text, code, said: code === 0 ? '' : running.output }).toMatchObject({
    code: 0,
    said: '',
  });
  return running.output;
}

/** @param code Exit code of the command; null for npx, which ends by the signal. */
async function endInOrder(running: GuideProcess, code: number | null = 0): Promise<void> {
  expect([await running.end('SIGTERM'), running.output.includes('Error:')]).toEqual([code, false]);
}

test('`trainyard export --base` creates both forms', async () => {
  await ended(command('trainyard export --base model.gguf --output base-f32'));
  await ended(command('trainyard export --base model.gguf --output base'));
  for (const folder of ['base', 'base-f32'])
    expect(readdirSync(join(scratch, folder)).toSorted()).toEqual(['gguf', 'hugging-face']);
}, 300_000);

describe('roles', () => {
  const ADMIN_KEY = 'ty-admin-key-of-the-guide-0123456789abcdef';
  const begin = {
    api: 'trainyard serve --role api --data-dir',
    engine: 'trainyard serve --role engine --model',
    trainer: 'trainyard serve --role trainer --model',
  };
  const running = new Map<string, GuideProcess>();
  let balancer: Balancer;
  beforeAll(async () => void (balancer = await Balancer.open()));
  afterAll(async () => await balancer[Symbol.asyncDispose]());

  const start = async (name: string): Promise<GuideProcess> => {
    const role = name.replace(/\d$/, '') as keyof typeof begin;
    const edits = { '/var/lib/trainyard': join(scratch, name), 'model.gguf': join(scratch, 'base/gguf/model.gguf') };
    const started = await run(command(begin[role]), edits, { TRAINYARD_API_KEY: ADMIN_KEY }).ready();
    running.set(name, started);
    if (role === 'api') balancer.targets.add(started.origin);
    return started;
  };
  const end = async (name: string, signal: 'SIGTERM' | 'SIGKILL'): Promise<void> => {
    const one = running.get(name)!;
    if (signal === 'SIGTERM') await endInOrder(one);
    else await one.end(signal);
    balancer.targets.delete(one.origin);
  };
  const client = () => new Trainyard({ baseUrl: `${balancer.origin}/v1`, apiKey: ADMIN_KEY, maxRetries: 0 });
  const chat = async (model = 'base'): Promise<number> => {
    const answer = await fetch(`${balancer.origin}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${ADMIN_KEY}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model, messages: [{ role: 'user', content: `Say ${Math.random()}.` }], max_tokens: 4 }),
      signal: AbortSignal.timeout(60_000),
    });
    await answer.text();
    return answer.status;
  };
  const submit = async (gradientSteps: number) => {
    const model = await client().models.register({ project: 'guide', name: 'agent', base_model: 'base' });
    const job = await client().trainingJobs.create({
      model_id: model.id,
      trajectory_groups: await tenLongGroups(client(), 'base', WITH_LOGPROBS),
      experimental_config: { learning_rate: 1e-4, gradient_steps: gradientSteps },
    });
    return job.id;
  };

  test('two API processes, two engines and a trainer start with the commands of the page, and train a step', async () => {
    await Promise.all(['api1', 'engine1', 'engine2'].map(start));
    await Promise.all(['api2', 'trainer1'].map(start));
    await expect.poll(() => balancer.numReady).toBe(2);
    expect(await client().trainingJobs.gradientSteps(await submit(1))).toHaveLength(1);
    expect(await chat('agent')).toBe(200);
  }, 300_000);

  test('a rolling restart under load loses no request', async () => {
    const statuses = new Map<number, number>();
    let isOver = false;
    const load = Array.from({ length: 3 }, async () => {
      while (!isOver) {
        const status = await chat('agent').catch(() => 0);
        statuses.set(status, (statuses.get(status) ?? 0) + 1);
      }
    });
    let jobId: string;
    try {
      jobId = await submit(4);
      for (const name of ['trainer1', 'engine1', 'engine2', 'api1', 'api2']) {
        await end(name, 'SIGTERM');
        await start(name);
        if (name.startsWith('api')) await expect.poll(() => balancer.numReady).toBe(2);
      }
    } finally {
      isOver = true;
      await Promise.all(load);
    }
    console.log(`answers during the restarts, by status: ${JSON.stringify(Object.fromEntries(statuses))}`);
    expect([...statuses.keys()]).toEqual([200]);
    expect(await client().trainingJobs.gradientSteps(jobId)).toHaveLength(4);
  }, 300_000);

  test('after a kill of each kind everything continues', async () => {
    const jobId = await submit(6);
    for (const name of ['engine1', 'trainer1', 'api1']) {
      await end(name, 'SIGKILL');
      await expect.poll(() => chat('agent').catch(() => 0)).toBe(200);
      await start(name);
    }
    expect(await client().trainingJobs.gradientSteps(jobId)).toHaveLength(6);
  }, 300_000);

  test('with a slow bucket a job ends, and with a hanging one chats continue and the job ends afterwards', async () => {
    bucketFault = 'slow';
    expect(await client().trainingJobs.gradientSteps(await submit(1))).toHaveLength(1);
    expect(await chat('agent')).toBe(200);
    const jobId = await submit(2);
    bucketFault = 'hanging';
    const statuses: number[] = [];
    const until = performance.now() + 20_000;
    while (performance.now() < until) {
      statuses.push(await chat('base'));
      await delay(500);
    }
    expect([...new Set(statuses)]).toEqual([200]);
    bucketFault = 'none';
    bucketWay.closeAllConnections();
    expect(await client().trainingJobs.gradientSteps(jobId)).toHaveLength(2);
  }, 300_000);

  test('a full backup is restored into a folder, and a stopped database is reported', async () => {
    const { exports } = command(begin.api);
    const place = join(scratch, 'backups');
    mkdirSync(place);
    const edits = { '/backups': place };
    await ended({ ...command('trainyard backup /backups/monday'), exports }, edits, {
      TRAINYARD_DATA_DIR: join(scratch, 'api1'),
    });
    expect(existsSync(join(place, 'monday/backup.json'))).toBe(true);
    await ended(command('trainyard restore /backups/monday'), edits);
    expect(existsSync(join(scratch, 'restored/trainyard.sqlite'))).toBe(true);
    await cluster.goAway();
    expect(await chat('agent')).toBe(200);
    await expect.poll(() => balancer.numReady).toBe(0);
    await cluster.comeBack();
    await expect.poll(() => balancer.numReady).toBe(2);
    expect(await chat('agent')).toBe(200);
    for (const name of running.keys()) await end(name, 'SIGTERM');
  }, 300_000);
});

test('`trainyard db move` moves a service to PostgreSQL, and to a bucket', async () => {
  const service = await smallService({ dataDirectory: join(scratch, '.trainyard') });
  await service.stop();
  const credentials = {
    AWS_ACCESS_KEY_ID: CREDENTIALS.accessKeyId,
    AWS_SECRET_ACCESS_KEY: CREDENTIALS.secretAccessKey,
  };
  const targets = [
    [
      'trainyard db move --from .trainyard --to postgres://trainyard@db.example',
      'postgres://trainyard@db.example/trainyard',
    ],
    ['trainyard db move --from .trainyard --to postgres:// ', 'postgres:// '],
  ] as const;
  for (const [begin, address] of targets) {
    const edits = {
      [address]: `${quoted(await cluster.createSchema())} `,
      'https://s3.example.com/bucket': await server.createBucket(),
    };
    expect(await ended(command(begin), edits, credentials)).toContain('models');
  }
}, 300_000);

test('the service starts with vLLM servers that require a key, and with a remote trainer', async () => {
  const key = 'a-key-of-the-servers';
  const urls: string[] = [];
  const fakes: FakeVllm[] = [];
  for (let index = 0; index < 4; index++) {
    const ends = { eosTokenId: 2, endTokenIds: new Set([2]) };
    const engine = new TokenEngine({ runner: new ScriptedRunner({ vocabSize: 8_192 }), ends });
    const brain = new EmbeddedTokenBackend({ modelId: 'base', engine });
    fakes.push(await FakeVllm.open({ brain, policy: 'fcfs', apiKey: key }));
    urls.push(fakes.at(-1)!.url);
  }
  const tinker = await FakeTinkerServer.start(SKYRL_0_4);
  try {
    const adapters = join(scratch, 'adapters');
    mkdirSync(adapters);
    const settings = { TRAINYARD_VLLM_KEY: key, TRAINYARD_VLLM_CHECK: 'off' };
    const two = 'trainyard serve --model base=model.gguf --vllm http://10.0.0.5:8000';
    const edits = { 'http://10.0.0.5:8000': urls[0]!, 'http://10.0.0.6:8000': urls[1]!, '/mnt/adapters': adapters };
    await endInOrder(await run(command(two), edits, settings).ready());
    const four = 'trainyard serve --model base=model.gguf --vllm http://127.0.0.1:8100';
    const places = Object.fromEntries(urls.map((url, index) => [`http://127.0.0.1:810${index}`, url]));
    await endInOrder(await run(command(four), places, settings).ready());
    for (const [begin, url, name] of [
      ['TRAINYARD_TRAINER_KEY=… npx trainyard serve', 'http://10.0.0.5:8000', 'Qwen/Qwen3-8B'],
      ['trainyard serve --model base/gguf/model.gguf --trainer-url', 'http://127.0.0.1:8000', 'base-f32/hugging-face'],
    ] as const) {
      tinker.models = [name];
      // The dots of the page mean a key.
      const places = { [url]: tinker.url, 'TRAINER_KEY=…': 'TRAINER_KEY=key', 'base.gguf': 'model.gguf' };
      await endInOrder(await run(command(begin), places).ready(), begin.includes('npx') ? null : 0);
    }
    const refused = run(command(two), edits, { ...settings, TRAINYARD_VLLM_KEY: 'another' });
    expect([await refused.ended(), refused.output]).toEqual([1, expect.stringContaining('answered 401')]);
  } finally {
    for (const fake of fakes) await fake.close();
    await tinker.close();
  }
}, 300_000);

test('every command of the two pages runs here or in the tests of blocks, or has a reason why not', () => {
  const isKnown = (one: GuideCommand) =>
    used.has(one) ||
    one.mark === 'cluster' ||
    isRun({ language: 'sh', mark: one.mark }) ||
    /^(export|KEY=)/.test(one.text) ||
    NOT_RUN.some(([begin]) => one.text.startsWith(begin));
  expect(commands.filter((one) => !isKnown(one)).map(({ at, text }) => `${at} ${text}`)).toEqual([]);
  const idle = NOT_RUN.filter(([begin]) => !commands.some(({ text }) => text.startsWith(begin)));
  expect(idle).toEqual([]);
});
