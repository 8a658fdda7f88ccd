/**
 * A service in parts: two API processes, a separate trainer, one database. One part continues another's work,
 * and nothing is lost or doubled.
 */
import assert from 'node:assert/strict';
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

import { Trainyard } from '@trainyard/sdk';
import { PostgresCluster } from '@trainyard/store/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { programPath } from '../../scripts/program-path.ts';
import { eventTypes } from '../support/event-types.ts';
import { tenLongGroups } from '../support/groups.ts';
import { testModel } from '../support/model.ts';
import { smallService } from '../support/small-service.ts';

const BASE = 'HuggingFaceTB/SmolLM2-135M-Instruct';
const MAIN = programPath('packages/cli/src/main.ts');
const folder = mkdtempSync(join(tmpdir(), 'trainyard-roles-'));
const trainers = new Set<ChildProcess>();
let cluster: PostgresCluster;
let database: string;
beforeAll(async () => {
  const programs = process.env['TRAINYARD_TEST_POSTGRES'];
  assert(programs !== undefined, 'the project `postgres` starts the server');
  cluster = await PostgresCluster.start(programs);
  database = await cluster.createSchema();
});
afterAll(async () => {
  for (const trainer of trainers) trainer.kill('SIGKILL');
  await cluster.stop();
  rmSync(folder, { recursive: true });
});

/** Its own data folder with blobs shared by all parts, as on a shared file system. */
function dataFolder(name: string): string {
  const [blobs, own] = [join(folder, 'blobs'), join(folder, name)];
  mkdirSync(blobs, { recursive: true });
  mkdirSync(own);
  symlinkSync(blobs, join(own, 'blobs'));
  return own;
}

async function trainer(name: string): Promise<ChildProcess> {
  const child = spawn(
    process.execPath,
    ['--conditions=@trainyard/source', MAIN, 'serve', '--json', '--role', 'trainer', '--data-dir', dataFolder(name)],
    {
      env: {
        ...process.env,
        TRAINYARD_DATABASE: database,
        TRAINYARD_MODEL: testModel().small,
        TRAINYARD_MODEL_ID: BASE,
      },
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  );
  trainers.add(child);
  for await (const line of createInterface(child.stdout!)) {
    expect(JSON.parse(line)).toMatchObject({ role: 'trainer', models: [BASE] });
    return child;
  }
  throw new Error('the trainer ended before it was ready');
}

async function end(child: ChildProcess, signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
  trainers.delete(child);
  child.kill(signal);
  if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
}

test('two API processes and a trainer are one service; a trainer that dies is replaced', async () => {
  const environment = { TRAINYARD_DATABASE: database, TRAINYARD_ROLE: 'api,engine' };
  const first = await smallService({ dataDirectory: dataFolder('one'), environment });
  const { apiKey } = first;
  const second = await smallService({
    dataDirectory: dataFolder('two'),
    environment: { ...environment, TRAINYARD_API_KEY: apiKey },
  });
  try {
    const [one, two] = [first, second].map(({ url }) => new Trainyard({ baseUrl: url, apiKey, maxRetries: 0 }));
    assert(one !== undefined && two !== undefined);
    const model = await one.models.register({ project: 'roles', name: 'agent', base_model: BASE });
    const groups = await tenLongGroups(two, 'agent');
    const asked = {
      model_id: model.id,
      trajectory_groups: groups,
      experimental_config: { learning_rate: 1e-4, gradient_steps: 3 },
    };
    const job = await two.trainingJobs.create(asked);

    const dying = await trainer('three');
    for await (const event of one.trainingJobs.watch(job.id)) if (event.type === 'gradient_step') break;
    await end(dying, 'SIGKILL');
    const following = await trainer('four');
    const steps = await one.trainingJobs.gradientSteps(job.id);
    expect(steps).toHaveLength(3);
    const events = eventTypes((await two.trainingJobs.events(job.id)).data);
    expect(events.filter((type) => type === 'gradient_step')).toHaveLength(3);
    expect(events.filter((type) => type === 'training_ended')).toHaveLength(1);

    const reported = await Promise.all(
      [one, two].map(async (client) => {
        const { choices } = await client.chat.completions.create({
          model: 'agent',
          messages: [{ role: 'user', content: 'Count.' }],
          max_tokens: 24,
          seed: 7,
          return_token_ids: true,
        });
        return choices[0]!.token_ids;
      }),
    );
    expect(reported[0]).toEqual(reported[1]);

    // A stop request at one process stops the job in the trainer.
    const long = await one.trainingJobs.create({
      ...asked,
      experimental_config: { learning_rate: 1e-4, gradient_steps: 10 },
    });
    for await (const event of two.trainingJobs.watch(long.id)) if (event.type === 'gradient_step') break;
    await two.trainingJobs.cancel(long.id);
    expect((await one.trainingJobs.retrieve(long.id)).status).toBe('cancelled');

    // The trainer is free for another job, and on shutdown returns its job to the queue.
    const given = await one.trainingJobs.create(asked);
    for await (const event of one.trainingJobs.watch(given.id)) if (event.type === 'gradient_step') break;
    await end(following, 'SIGTERM');
    expect(following.exitCode).toBe(0);
    await trainer('five');
    expect(await two.trainingJobs.gradientSteps(given.id)).toHaveLength(3);
  } finally {
    await Promise.all([first.stop(), second.stop()]);
  }
}, 400_000);
