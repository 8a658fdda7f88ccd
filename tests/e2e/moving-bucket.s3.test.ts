/** A job moves between machines only through the bucket, with a fault in every tenth request. */
import assert from 'node:assert/strict';

import { Trainyard } from '@trainyard/sdk';
import { openStore, type SqlStore } from '@trainyard/store';
import { CREDENTIALS, PostgresCluster, REGION, S3Server, unreliableNetwork } from '@trainyard/store/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { eventTypes } from '../support/event-types.ts';
import { tenLongGroups, WITH_LOGPROBS } from '../support/groups.ts';
import { ServiceParts } from '../support/service-parts.ts';

const BASE = 'HuggingFaceTB/SmolLM2-135M-Instruct';
const NUM_STEPS = 10;
const EVERY_REQUESTS = 10;
let server: S3Server;
let network: Awaited<ReturnType<typeof unreliableNetwork>>;
let cluster: PostgresCluster;
let parts: ServiceParts;
let store: SqlStore;
beforeAll(async () => {
  const { TRAINYARD_TEST_S3_SERVER: program, TRAINYARD_TEST_POSTGRES: programs } = process.env;
  assert(program !== undefined && programs !== undefined, '`npm run lab -- s3` starts the servers');
  [server, cluster] = await Promise.all([S3Server.start(program), PostgresCluster.start(programs)]);
  network = await unreliableNetwork(server.origin, EVERY_REQUESTS);
  const database = await cluster.createSchema();
  const bucket = (await server.createBucket()).replace(server.origin, network.origin);
  parts = new ServiceParts({
    database,
    secret: 'a secret for these tests, which is long enough',
    more: {
      TRAINYARD_BUCKET: `${bucket}/yard`,
      TRAINYARD_BUCKET_REGION: REGION,
      AWS_ACCESS_KEY_ID: CREDENTIALS.accessKeyId,
      AWS_SECRET_ACCESS_KEY: CREDENTIALS.secretAccessKey,
      TRAINYARD_SNAPSHOT_STEPS: '2',
    },
  });
  store = await openStore({ kind: 'postgres', url: database, maxConnections: 2 }, { instanceId: 'watcher' });
}, 200_000);
afterAll(async () => {
  await parts?.close();
  await store?.close();
  await cluster?.stop();
  await network?.close();
  await server?.stop();
});

test('it continues on another machine from its snapshot, and ends with the weights of an undisturbed run', async () => {
  const engine = await parts.part('engine');
  const first = await parts.part('trainer');
  const { url, apiKey } = await parts.api();
  const client = new Trainyard({ baseUrl: url, apiKey });
  const groups = await tenLongGroups(client, BASE, WITH_LOGPROBS);
  const submit = async (name: string) => {
    const model = await client.models.register({ project: 'bucket', name, base_model: BASE });
    const { id } = await client.trainingJobs.create({
      model_id: model.id,
      trajectory_groups: groups,
      experimental_config: { learning_rate: 1e-4, gradient_steps: NUM_STEPS },
    });
    return { jobId: id, modelId: model.id };
  };
  const digestOf = async (modelId: string) => (await store.checkpoints.latest(modelId))?.digest;

  const undisturbed = await submit('undisturbed');
  expect(await client.trainingJobs.gradientSteps(undisturbed.jobId)).toHaveLength(NUM_STEPS);

  const moved = await submit('moved');
  const kept = async () => (await store.jobs.get(moved.jobId))?.snapshot?.numGradientSteps ?? 0;
  await expect.poll(kept, { interval: 5, timeout: 100_000 }).toBeGreaterThan(0);
  await first.end('SIGKILL');
  const numKept = await kept();
  expect(numKept).toBeLessThan(NUM_STEPS);
  await parts.part('trainer');
  expect(await client.trainingJobs.gradientSteps(moved.jobId)).toHaveLength(NUM_STEPS);
  const events = (await client.trainingJobs.events(moved.jobId, { limit: 100 })).data;
  expect(eventTypes(events).filter((type) => type === 'training_ended')).toHaveLength(1);
  expect(await digestOf(moved.modelId)).toBe(await digestOf(undisturbed.modelId));

  // Its result is also sampled from the bucket.
  const { choices } = await client.chat.completions.create({
    model: 'local/bucket/moved',
    messages: [{ role: 'user', content: 'Say something.' }],
    max_tokens: 4,
  });
  expect(choices).toHaveLength(1);
  expect(await engine.end('SIGTERM')).toBe(0);
  console.log(`moved after ${numKept} steps; faults of the bucket: ${JSON.stringify(network.faults)}`);
  expect(Object.values(network.faults).every((number) => number > 0)).toBe(true);
}, 400_000);
