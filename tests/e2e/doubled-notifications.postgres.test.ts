/**
 * Processes of a service that receive every notification of their database twice: each job, step, event and
 * token exists once.
 */
import assert from 'node:assert/strict';

import { Trainyard, type TrainingEventObject } from '@trainyard/sdk';
import { doublingNotifications, PostgresCluster, PostgresProxy, queryServer } from '@trainyard/store/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { eventTypes } from '../support/event-types.ts';
import { tenLongGroups, WITH_LOGPROBS } from '../support/groups.ts';
import { ServiceParts } from '../support/service-parts.ts';

const BASE = 'HuggingFaceTB/SmolLM2-135M-Instruct';
const API_KEY = 'the-key-of-both-processes';
let cluster: PostgresCluster;
let database: string;
let proxy: PostgresProxy;
let parts: ServiceParts;
let clients: [Trainyard, Trainyard];
let numDoubled = 0;

beforeAll(async () => {
  const programs = process.env['TRAINYARD_TEST_POSTGRES'];
  assert(programs !== undefined, 'the project `postgres` starts the server');
  cluster = await PostgresCluster.start(programs);
  database = await cluster.createSchema();
  proxy = await PostgresProxy.start([database], { relay: doublingNotifications(() => void (numDoubled += 1)) });
  parts = new ServiceParts({
    database: proxy.addressOf(database),
    secret: 'a secret for these tests, which is long enough',
    more: { TRAINYARD_API_KEY: API_KEY },
  });
  await Promise.all([parts.part('engine'), parts.part('trainer'), parts.part('trainer')]);
  const [one, two] = [await parts.api(), await parts.api()];
  clients = [one, two].map(({ url }) => new Trainyard({ baseUrl: url, apiKey: API_KEY, maxRetries: 0 })) as [
    Trainyard,
    Trainyard,
  ];
}, 300_000);
afterAll(async () => {
  await parts?.close();
  await proxy?.stop();
  await cluster?.stop();
});

async function submit(groups: Awaited<ReturnType<typeof tenLongGroups>>, name: string, numSteps: number) {
  const [one] = clients;
  const model = await one.models.register({ project: 'doubled', name, base_model: BASE });
  return await one.trainingJobs.create({
    model_id: model.id,
    trajectory_groups: groups,
    experimental_config: { learning_rate: 1e-4, gradient_steps: numSteps },
  });
}

async function watched(client: Trainyard, jobId: string): Promise<TrainingEventObject[]> {
  const events: TrainingEventObject[] = [];
  for await (const event of client.trainingJobs.watch(jobId)) events.push(event);
  return events;
}

test('a job is started once, reported once to each watcher, charged once, and cancelled once', async () => {
  const [one, two] = clients;
  const groups = await tenLongGroups(one, BASE, WITH_LOGPROBS);
  const jobs = await Promise.all(['a', 'b', 'c'].map((name) => submit(groups, name, 2)));
  const received = await Promise.all(jobs.flatMap(({ id }) => [watched(one, id), watched(two, id)]));
  for (const events of received) {
    expect(eventTypes(events)).toEqual(['training_started', 'gradient_step', 'gradient_step', 'training_ended']);
    expect(new Set(events.map(({ id }) => id)).size).toBe(events.length);
  }
  const [first, second] = [await submit(groups, 'd', 20), await submit(groups, 'd', 1)];
  for await (const event of two.trainingJobs.watch(first.id)) if (event.type === 'gradient_step') break;
  await two.trainingJobs.cancel(first.id);
  expect(eventTypes(await watched(one, second.id)).at(-1)).toBe('training_ended');
  expect((await one.trainingJobs.retrieve(first.id)).status).toBe('cancelled');
  expect((await one.trainingJobs.retrieve(second.id)).status).toBe('succeeded');

  const claims = await queryServer<{ id: string; claims: number }>(
    database,
    'select id, fencing_token as claims from jobs',
  );
  expect(claims.map(({ claims: number }) => number)).toEqual(claims.map(() => 1));
  const ends = await queryServer<{ n: number }>(
    database,
    `select count(*) as n from job_events where type in ('training_ended', 'training_failed') group by job_id`,
  );
  expect(ends.every(({ n }) => n === 1)).toBe(true);
  const charged = await queryServer<{ n: number }>(
    database,
    `select sum(num_requests) as n from usage where kind = 'training'`,
  );
  console.log(`notifications that came twice: ${numDoubled}`);
  expect(Number(charged[0]?.n)).toBe(5);
  expect(numDoubled).toBeGreaterThan(20);
}, 400_000);
