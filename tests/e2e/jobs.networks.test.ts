/**
 * Jobs while their trainer, or the whole service, is disconnected from the database: each step is reported
 * once, and the weights equal those of an undisturbed run.
 */
import assert from 'node:assert/strict';

import { queryServer } from '@trainyard/store/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { tenLongGroups, WITH_LOGPROBS } from '../support/groups.ts';
import { DatabaseMachine, PASSWORD } from '../support/network/database-machine.ts';
import { type Machine, Network } from '../support/network/network.ts';
import { BASE, type NetworkPart, NetworkParts } from '../support/network/network-parts.ts';

const NUM_STEPS = 6;

let network: Network;
let database: DatabaseMachine;
let url: string;
let parts: NetworkParts;
let gateway: NetworkPart;
let trainers: NetworkPart[];
let trainerMachines: Machine[];
let groups: Awaited<ReturnType<typeof tenLongGroups>>;
let undisturbed: Outcome;
let counted: Awaited<ReturnType<typeof countedOf>>;

beforeAll(async () => {
  network = new Network();
  const machine = (name: string) => network.machine(name);
  database = await DatabaseMachine.start(await machine('database'));
  url = await database.createDatabase();
  parts = new NetworkParts({
    TRAINYARD_DATABASE: url,
    PGPASSWORD: PASSWORD,
    TRAINYARD_SNAPSHOT_STEPS: '1',
  });
  trainerMachines = [await machine('trainer one'), await machine('trainer two')];
  gateway = await parts.start(await machine('gateway'), 'api,engine');
  trainers = [await parts.start(trainerMachines[0]!, 'trainer')];
  groups = await tenLongGroups(gateway.client, BASE, WITH_LOGPROBS);
  undisturbed = await outcomeOf(await submit('undisturbed'));
  counted = await countedOf('undisturbed');
  assert(undisturbed.status === 'succeeded' && undisturbed.digest !== undefined);
  assert.equal(undisturbed.events.length, NUM_STEPS + 2);
  assert(counted.charged.length === 1 && counted.points.length > 3, JSON.stringify(counted));
}, 300_000);
afterAll(async () => {
  await parts?.close();
  await database?.stop();
  network?.close();
});

interface Submitted {
  readonly jobId: string;
  readonly modelId: string;
}

async function submit(name: string): Promise<Submitted> {
  const { client } = gateway;
  const model = await client.models.register({ project: 'networks', name, base_model: BASE });
  const job = await client.trainingJobs.create({
    model_id: model.id,
    trajectory_groups: groups,
    experimental_config: { learning_rate: 1e-4, gradient_steps: NUM_STEPS },
  });
  return { jobId: job.id, modelId: model.id };
}

type Outcome = Awaited<ReturnType<typeof outcomeOf>>;

/** All results of a job after its end, read by the server's socket, which no disconnect affects. */
async function outcomeOf({ jobId, modelId }: Submitted) {
  const near = database.nearby(url);
  const ended = async () =>
    (await queryServer<{ status: string }>(near, `select status from jobs where id = '${jobId}'`))[0]?.status;
  while (!['succeeded', 'failed', 'cancelled'].includes((await ended()) ?? ''))
    await new Promise((over) => setTimeout(over, 200));
  const events = await queryServer<{ type: string }>(
    near,
    `select type from job_events where job_id = '${jobId}' and type <> 'warning' order by seq`,
  );
  const [checkpoint] = await queryServer<{ digest: string }>(
    near,
    `select digest from checkpoints where model_id = '${modelId}' order by step desc limit 1`,
  );
  return { status: await ended(), events, digest: checkpoint?.digest };
}

async function untilStep({ jobId }: Submitted, numSteps = 1): Promise<void> {
  const near = database.nearby(url);
  const reportedSteps = async () =>
    (
      await queryServer<{ n: number }>(
        near,
        `select count(*) as n from job_events where job_id = '${jobId}' and type = 'gradient_step'`,
      )
    )[0]?.n ?? 0;
  while ((await reportedSteps()) < numSteps) await new Promise((over) => setTimeout(over, 5));
}

/** Connections that the server holds for a machine. */
async function numConnections({ address }: Machine): Promise<number> {
  const statement = `select count(*) as n from pg_stat_activity where client_addr = '${address}'`;
  return (await queryServer<{ n: number }>(database.nearby(url), statement))[0]?.n ?? 0;
}

/** Tokens charged for training, and the number of points in a model's charts. */
async function countedOf(name: string): Promise<{ charged: object[]; points: object[] }> {
  const near = database.nearby(url);
  const charged = await queryServer(
    near,
    `select kind, sum(num_requests) as requests, sum(prompt_tokens) as tokens from usage
     where kind = 'training' and model like '%networks/${name}%' group by kind`,
  );
  const points = await queryServer(
    near,
    `select series.name, count(*) as n from metric_points points join metric_series series on series.id = points.series_id
     join models on models.id = series.model_id where models.name = '${name}' group by series.name order by series.name`,
  );
  return { charged, points };
}

test('a trainer cut off beyond its lease writes nothing more; another takes its job, and each step exists once', async () => {
  const submitted = await submit('moved');
  await untilStep(submitted);
  const [cut] = trainers;
  network.cut(cut!.machine, database.machine);
  const begun = performance.now();
  const second = await parts.start(trainerMachines[1]!, 'trainer');
  await untilStep(submitted, 2);
  console.log(`another reported a step ${((performance.now() - begun) / 1000).toFixed(1)} s after the cut`);
  // The server does not keep its few connections for an unreachable client.
  await expect.poll(() => numConnections(cut!.machine), { timeout: 100_000 }).toBe(0);
  console.log(`the server closed its connections ${((performance.now() - begun) / 1000).toFixed(1)} s after the cut`);
  network.heal();
  const outcome = await outcomeOf(submitted);
  expect(outcome).toEqual(undisturbed);
  await expect.poll(() => cut!.says(`${submitted.jobId}: still has the status`), { timeout: 60_000 }).toBe(true);
  expect(await countedOf('moved')).toEqual(counted);
  // It is a normal trainer again.
  await second.end('SIGTERM');
  expect(await outcomeOf(await submit('again'))).toEqual(undisturbed);
  expect(await outcomeOf(submitted)).toEqual(outcome);
}, 400_000);

test.each(['stopped', 'cut off'])(
  'while the database is %s for longer than a lease a job waits, and continues by itself',
  async (how) => {
    const name = how.replace(' ', '-');
    const submitted = await submit(name);
    await untilStep(submitted);
    const [trainer] = trainers;
    if (how === 'stopped') await database.cluster.goAway();
    else for (const { machine } of [gateway, trainer!]) network.cut(machine, database.machine);
    await new Promise((over) => setTimeout(over, 35_000));
    if (how === 'stopped') await database.cluster.comeBack();
    else network.heal();
    const healed = performance.now();
    expect(await outcomeOf(submitted)).toEqual(undisturbed);
    console.log(`${how}: the job ended ${((performance.now() - healed) / 1000).toFixed(1)} s after the recovery`);
    expect(await countedOf(name)).toEqual(counted);
  },
  400_000,
);
