/**
 * Time from the commit of a step to its first token on two engines:   npm run bench -- new-step   (about 3
 * minutes; `-- --rounds 5`)
 *
 * PostgreSQL, a bucket, an API process, two engines and a trainer, each in its own process, on this machine.
 * Each round trains one step of 64 rollouts (8 groups
 * of 8) and samples 64 rollouts of the new step as soon as its job has ended. Proxies for the bucket and the
 * engines measure the parts.
 */
import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';

import { Trainyard } from '@trainyard/sdk';
import { gatherGroup } from '@trainyard/sdk/rollouts';
import { CREDENTIALS, freePort, MemoryBucket, PostgresCluster, REGION, S3Server } from '@trainyard/store/testing';

import { findPostgres } from '../../scripts/lib/postgres.mjs';
import { defaultModelPath } from '../../scripts/own-service.ts';
import { ServiceParts } from '../../tests/support/service-parts.ts';
import { machineLine, otherCores, sampleCpu, secondsOf, waitUntilQuiet } from '../machine.ts';
import { COMMIT, type EngineTimes, PARTS, timesOf } from './step-times.ts';
import { WatchedProxy } from './watched-proxy.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const VERSITYGW = join(ROOT, '.cache/s3/v1.8.0/versitygw');
const BASE = 'HuggingFaceTB/SmolLM2-135M-Instruct';
const NUM_GROUPS = 8;
const GROUP_SIZE = 8;
const NUM_ENGINES = 2;
const MAX_TOKENS = 16;

const { values } = parseArgs({
  options: { rounds: { type: 'string', default: '3' }, 'max-wait': { type: 'string', default: '60' } },
});
const postgres = findPostgres(process.env);
if (postgres === null)
  throw new Error('PostgreSQL is missing. Install it with "node scripts/bootstrap.mjs --postgres"');

await using stack = new AsyncDisposableStack();
const cluster = stack.adopt(await PostgresCluster.start(postgres), (server) => server.stop());
const { bucketUrl, bucketName } = await openBucket();
const bucketOrigin = new URL(bucketUrl).origin;
/** A proxy to the bucket per process, to distinguish its requests. */
const bucketWay = async () => stack.use(await WatchedProxy.open(bucketOrigin));
const through = (way: WatchedProxy) => ({ TRAINYARD_BUCKET: bucketUrl.replace(bucketOrigin, way.origin) });
const parts = stack.adopt(
  new ServiceParts({
    database: await cluster.createSchema(),
    secret: 'a secret for this benchmark, which is long enough',
    more: {
      TRAINYARD_MODEL: defaultModelPath(),
      TRAINYARD_BUCKET_REGION: REGION,
      AWS_ACCESS_KEY_ID: CREDENTIALS.accessKeyId,
      AWS_SECRET_ACCESS_KEY: CREDENTIALS.secretAccessKey,
    },
  }),
  (all) => all.close(),
);

const engines = [];
for (let index = 0; index < NUM_ENGINES; index++) {
  const port = await freePort();
  const [bucket, calls] = [
    await bucketWay(),
    stack.use(await WatchedProxy.open(`http://127.0.0.1:${port}`, { keepsBodies: true })),
  ];
  const environment = { ...through(bucket), TRAINYARD_ENGINE_URL: calls.origin };
  engines.push({ bucket, calls, part: await parts.part('engine', { port, environment }) });
}
const trainerBucket = await bucketWay();
const trainer = await parts.part('trainer', { environment: through(trainerBucket) });
const api = await parts.api({ ...through(await bucketWay()), TRAINYARD_MODEL: '/nowhere.gguf' });
const client = new Trainyard({ baseUrl: api.url, apiKey: api.apiKey, maxRetries: 0 });
const own = [api.pid, trainer.pid, ...engines.map(({ part }) => part.pid)];

/**
 * Processor time of the service at each commit and each first token: on a busy machine it is more meaningful
 * than elapsed time.
 */
const computed: { readonly at: number; readonly seconds: number }[] = [];
const noteComputed = () => computed.push({ at: performance.now(), seconds: secondsOf(own) });
trainerBucket.onEnd = ({ method, path }) => {
  if (method === 'PUT' && COMMIT.test(path)) noteComputed();
};

const quiet = await waitUntilQuiet(Number(values['max-wait']) * 1000);
console.log(`${machineLine()}; other processes use ${figure(quiet)} cores at the start`);
console.log(`bucket: ${bucketName}; ${NUM_GROUPS} groups of ${GROUP_SIZE}, ${MAX_TOKENS} tokens each\n`);
const model = await client.models.register({ project: 'bench', name: 'new-step', base_model: BASE });
let groups = await sample('begin').groups;
const rounds: EngineTimes[] = [];
console.log(
  ['step', 'engine', ...PARTS, 'sum', 'MB', 'job end', 'CPU', 'others, cores']
    .map((name) => name.padStart(13))
    .join(''),
);
for (let round = 0; round <= Number(values.rounds); round++) {
  const job = await client.trainingJobs.create({
    model_id: model.id,
    trajectory_groups: groups,
    experimental_config: { gradient_steps: 1, learning_rate: 1e-5 },
  });
  const before = sampleCpu(own);
  await client.trainingJobs.gradientSteps(job.id);
  const endedAt = performance.now();
  const rollouts = sample(`round ${round}`);
  groups = await rollouts.groups;
  const others = otherCores(before, sampleCpu(own));
  for (const [index, { bucket, calls }] of engines.entries()) {
    const firstTokens = rollouts.firstTokens;
    const times = timesOf({
      trainer: trainerBucket.exchanges,
      bucket: bucket.exchanges,
      calls: calls.exchanges,
      firstTokens,
    });
    // The first step compiles code for all later ones.
    if (round > 0) rounds.push(times);
    const cells = [`${round + 1}`, `${index + 1}`, ...PARTS.map((part) => seconds(times[part])), seconds(times.total)];
    const computedSeconds = computedBy(times.firstTokenAt) - computedBy(times.committedAt);
    const more = [
      (times.bytes / 1e6).toFixed(1),
      seconds(endedAt - times.committedAt),
      computedSeconds.toFixed(2),
      figure(others),
    ];
    console.log([...cells, ...more].map((cell) => cell.padStart(13)).join(''));
  }
  for (const proxy of [trainerBucket, ...engines.flatMap(({ bucket, calls }) => [bucket, calls])])
    proxy.exchanges.length = 0;
}
console.log(
  `\nfrom committed to the first token on both engines, median of ${values.rounds}: ${seconds(medianOfSlower())} s`,
);

/**
 * Samples 64 rollouts of the trained model, each group a streamed request; `firstTokens` has the time of the
 * first token by prompt text.
 */
function sample(label: string) {
  const firstTokens = new Map<string, number>();
  const prompts = Array.from({ length: NUM_GROUPS }, (_, index) => `Prompt ${label} number ${index}: say something.`);
  const one = async (prompt: string, seed: number) => {
    const fields = { model: 'new-step', messages: [{ role: 'user' as const, content: prompt }], n: GROUP_SIZE, seed };
    const stream = await client.chat.completions.create({ ...fields, max_tokens: 1, stream: true });
    for await (const { choices } of stream)
      if (!firstTokens.has(prompt) && choices.some(({ delta }) => (delta.content ?? '') !== '')) {
        firstTokens.set(prompt, performance.now());
        noteComputed();
      }
  };
  const gather = async (prompt: string, seed: number) => {
    const fields = { model: 'new-step', messages: [{ role: 'user' as const, content: prompt }], n: GROUP_SIZE, seed };
    return (await gatherGroup(client, { ...fields, max_tokens: MAX_TOKENS }, (choice) => choice.index)).group;
  };
  const groups = Promise.all(
    prompts.map(async (prompt, index) => {
      await one(prompt, index);
      return await gather(prompt, index);
    }),
  );
  return { groups, firstTokens };
}

async function openBucket(): Promise<{ bucketUrl: string; bucketName: string }> {
  if (existsSync(VERSITYGW)) {
    const server = stack.adopt(await S3Server.start(VERSITYGW), (started) => started.stop());
    return { bucketUrl: await server.createBucket(), bucketName: 'versitygw' };
  }
  const bucket = stack.adopt(await MemoryBucket.start(), (started) => started.close());
  return { bucketUrl: bucket.url, bucketName: 'a stand-in in memory (`npm run lab -- s3` builds versitygw)' };
}

/** Processor seconds of the service up to a time. */
function computedBy(at: number): number {
  return (computed.find((noted) => noted.at >= at) ?? computed.at(-1))?.seconds ?? Number.NaN;
}

function medianOfSlower(): number {
  const slower: number[] = [];
  for (let at = 0; at < rounds.length; at += NUM_ENGINES)
    slower.push(Math.max(...rounds.slice(at, at + NUM_ENGINES).map(({ total }) => total)));
  return slower.toSorted((a, b) => a - b)[Math.floor(slower.length / 2)] ?? Number.NaN;
}

function seconds(ms: number | null): string {
  return ms === null ? '–' : (ms / 1000).toFixed(3);
}

function figure(cores: number | null): string {
  return cores === null ? 'n/a' : cores.toFixed(2);
}
