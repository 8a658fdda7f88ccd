/**
 * Two services on one database with shared blobs: if the one with a job dies, the other continues it, and
 * both serve the result.
 */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { Trainyard } from '@trainyard/sdk';
import { PostgresCluster } from '@trainyard/store/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { eventTypes } from '../support/event-types.ts';
import { scoredGroup, tenLongGroups } from '../support/groups.ts';
import { smallService } from '../support/small-service.ts';

const BASE = 'HuggingFaceTB/SmolLM2-135M-Instruct';
const NAMES = ['one', 'two'];
const folder = mkdtempSync(join(tmpdir(), 'trainyard-two-services-'));
let cluster: PostgresCluster;
beforeAll(async () => {
  const programs = process.env['TRAINYARD_TEST_POSTGRES'];
  assert(programs !== undefined, 'the project `postgres` starts the server');
  cluster = await PostgresCluster.start(programs);
});
afterAll(async () => {
  await cluster.stop();
  rmSync(folder, { recursive: true });
});

/** A data folder with shared blobs, as on a shared volume. */
function dataDirectory(name: string): string {
  const path = join(folder, name);
  for (const each of [path, join(folder, 'blobs')]) mkdirSync(each, { recursive: true, mode: 0o700 });
  symlinkSync(join(folder, 'blobs'), join(path, 'blobs'));
  return path;
}

test('they start together on an empty database; a job of a killed one is finished by the other, once', async () => {
  const environment = {
    TRAINYARD_DATABASE: await cluster.createSchema(),
    TRAINYARD_API_KEY: 'the-key-of-both-services',
  };
  const services = await Promise.all(
    NAMES.map((name) => smallService({ dataDirectory: dataDirectory(name), environment })),
  );
  try {
    const clients = services.map(({ url, apiKey }) => new Trainyard({ baseUrl: url, apiKey, maxRetries: 0 }));
    const [one, two] = clients;
    assert(one !== undefined && two !== undefined);
    const model = await one.models.register({ project: 'pg', name: 'shared', base_model: BASE });
    // A new step is loaded in both, before any request names it.
    const ahead = await one.models.register({ project: 'pg', name: 'ahead', base_model: BASE });
    const short = await two.trainingJobs.create({
      model_id: ahead.id,
      trajectory_groups: [await scoredGroup(one, 'local/pg/ahead')],
      experimental_config: { learning_rate: 1e-4 },
    });
    expect(await two.trainingJobs.gradientSteps(short.id)).toHaveLength(1);
    for (const client of clients)
      await expect
        .poll(async () => (await client.hosts.read()).sampling.hosts.flatMap(({ steps }) => steps))
        .toContainEqual(expect.objectContaining({ model: 'local/pg/ahead', step: 1 }));
    // Records of choices from one are found by the other, where the job is created.
    const job = await two.trainingJobs.create({
      model_id: model.id,
      trajectory_groups: await tenLongGroups(one, 'local/pg/shared'),
      experimental_config: { learning_rate: 1e-4, gradient_steps: 2 },
    });
    for await (const event of two.trainingJobs.watch(job.id)) if (event.type === 'gradient_step') break;
    // Its snapshots are on the machine that runs it.
    const holder = NAMES.findIndex((name) => existsSync(join(folder, name, 'work', job.id)));
    assert(holder !== -1);
    process.kill(services[holder]!.pid, 'SIGKILL');
    const other = clients[1 - holder]!;
    expect(await other.trainingJobs.gradientSteps(job.id)).toHaveLength(2);
    const { data } = await other.trainingJobs.events(job.id);
    expect(eventTypes(data)).toEqual(['training_started', 'gradient_step', 'gradient_step', 'training_ended']);
    expect((await other.checkpoints.list(model.id)).data.map(({ step }) => step)).toEqual([0, 1]);
    const answer = await other.chat.completions.create({
      model: 'local/pg/shared',
      messages: [{ role: 'user', content: 'Say something.' }],
      max_tokens: 4,
    });
    expect(answer.model).toBe('local/pg/shared:step1');
  } finally {
    for (const service of services) await service.stop();
  }
}, 400_000);
