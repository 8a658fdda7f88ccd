/**
 * A service with PostgreSQL: after the service or the database ends midway, work continues, and nothing is
 * lost or doubled.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { Trainyard } from '@trainyard/sdk';
import { PostgresCluster } from '@trainyard/store/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { programPath } from '../../scripts/program-path.ts';
import { eventTypes } from '../support/event-types.ts';
import { tenLongGroups } from '../support/groups.ts';
import { testModel } from '../support/model.ts';
import { smallService } from '../support/small-service.ts';

const BASE = 'HuggingFaceTB/SmolLM2-135M-Instruct';
const PASSWORD = 'not-for-logs';
const MAIN = programPath('packages/cli/src/main.ts');
const folder = mkdtempSync(join(tmpdir(), 'trainyard-postgres-e2e-'));
const dataDirectory = join(folder, 'data');
let cluster: PostgresCluster;
let environment: Record<string, string>;
beforeAll(async () => {
  const programs = process.env['TRAINYARD_TEST_POSTGRES'];
  assert(programs !== undefined, 'the project `postgres` starts the server');
  cluster = await PostgresCluster.start(programs);
  const url = new URL(await cluster.createSchema());
  url.password = PASSWORD;
  environment = { TRAINYARD_DATABASE: url.href };
});
afterAll(async () => {
  await cluster.stop();
  rmSync(folder, { recursive: true });
});

test('a job continues after the service was killed and while the database is away; streams continue, requests get a time to wait', async () => {
  const first = await smallService({ dataDirectory, environment });
  const { apiKey } = first;
  const before = new Trainyard({ baseUrl: first.url, apiKey, maxRetries: 0 });
  const model = await before.models.register({ project: 'pg', name: 'agent', base_model: BASE });
  const job = await before.trainingJobs.create({
    model_id: model.id,
    trajectory_groups: await tenLongGroups(before, 'agent'),
    experimental_config: { learning_rate: 1e-4, gradient_steps: 3 },
  });
  for await (const event of before.trainingJobs.watch(job.id)) if (event.type === 'gradient_step') break;
  process.kill(first.pid, 'SIGKILL');
  await first.stop();

  const second = await smallService({ dataDirectory, environment: { ...environment, TRAINYARD_API_KEY: apiKey } });
  try {
    const client = new Trainyard({ baseUrl: second.url, apiKey, maxRetries: 0 });
    const messages = [{ role: 'user', content: 'Count.' }];
    const stream = await client.chat.completions.create({
      model: BASE,
      messages,
      max_tokens: 200,
      ignore_eos: true,
      stream: true,
      stream_options: { include_usage: true },
    });
    expect((await stream.next()).done).toBe(false);

    const register = () =>
      fetch(`${second.url}/preview/models`, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${apiKey}`,
          'content-type': 'application/json',
          'idempotency-key': 'once',
        },
        body: JSON.stringify({ project: 'pg', name: 'late', base_model: BASE }),
      });
    await cluster.goAway();
    const refused = await register();
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '1']);
    expect(await refused.text()).toContain('store.unavailable');
    await expect
      .poll(async () => (await fetch(`${second.url}/health`)).text())
      .toContain('the database has not answered for');
    let numTokens = 0;
    for await (const chunk of stream) numTokens = chunk.usage?.completion_tokens ?? numTokens;
    expect(numTokens).toBe(200);
    await cluster.comeBack();

    await expect.poll(async () => (await register()).status).toBe(200);
    const made = (await (await register()).json()) as { id: string };
    expect((await client.models.list({ project: 'pg' })).data.map(({ id }) => id).toSorted()).toEqual(
      [model.id, made.id].toSorted(),
    );
    expect(await client.trainingJobs.gradientSteps(job.id)).toHaveLength(3);
    const { data } = await client.trainingJobs.events(job.id);
    expect(eventTypes(data)).toEqual([
      'training_started',
      'gradient_step',
      'gradient_step',
      'gradient_step',
      'training_ended',
    ]);
    expect((await client.checkpoints.list(model.id)).data.map(({ step }) => step)).toEqual([0, 1]);
    // The stream's usage was written once the database was back.
    const { data: usage } = await client.usage.read({ by: ['model'] });
    expect(usage.find(({ model: name }) => name === BASE)?.completion_tokens).toBe(200);
    for (const service of [first, second]) expect(service.output()).not.toContain(PASSWORD);
  } finally {
    await second.stop();
  }
}, 400_000);

test('a prompt may contain characters that PostgreSQL cannot store, and its choice is trained', async () => {
  const service = await smallService({ dataDirectory, environment });
  try {
    const client = new Trainyard({ baseUrl: service.url, apiKey: service.apiKey, maxRetries: 0 });
    const model = await client.models.register({ project: 'pg', name: 'odd', base_model: BASE });
    const messages = [{ role: 'user', content: 'a\u0000b' }];
    const { choices } = await client.chat.completions.create({
      model: 'odd',
      messages,
      n: 2,
      max_tokens: 4,
      logprobs: true,
    });
    const trajectories = choices.map((choice, index) => ({
      messages_and_choices: [...messages, choice],
      reward: index,
      metadata: { word: 'nul \u0000 and half \ud800' },
    }));
    const job = await client.trainingJobs.create({
      model_id: model.id,
      trajectory_groups: [{ trajectories }],
      experimental_config: { learning_rate: 1e-4 },
    });
    expect(await client.trainingJobs.gradientSteps(job.id)).toHaveLength(1);
    const gone = await fetch(`${service.url}/preview/models/%00`, {
      headers: { authorization: `Bearer ${service.apiKey}` },
    });
    expect(gone.status).toBe(404);
  } finally {
    await service.stop();
  }
});

/** Runs `trainyard` with these arguments. @returns its output; its exit code must be 0 */
function trainyard(...args: string[]): string {
  const { status, stdout, stderr } = spawnSync(process.execPath, ['--conditions=@trainyard/source', MAIN, ...args], {
    encoding: 'utf8',
    env: { ...process.env, TRAINYARD_MODEL: import.meta.filename },
  });
  assert.equal(status, 0, stderr);
  assert(!(stdout + stderr).includes(PASSWORD));
  return stdout;
}

test('a backup of a running service, and the moved database, serve the same tokens from a folder', async () => {
  const url = environment['TRAINYARD_DATABASE']!;
  const backup = join(folder, 'backup');
  const ask = async ({ url: baseUrl, apiKey }: { url: string; apiKey: string }) => {
    const { choices, model } = await new Trainyard({ baseUrl, apiKey }).chat.completions.create({
      model: 'local/pg/agent',
      messages: [{ role: 'user', content: 'Say something.' }],
      max_tokens: 12,
      seed: 5,
      logprobs: true,
    });
    return { model, message: choices[0]!.message, logprobs: choices[0]!.logprobs };
  };
  const service = await smallService({ dataDirectory, environment });
  const expected = await ask(service).finally(() => {
    const made = trainyard('backup', backup, '--data-dir', dataDirectory, '--database', url);
    expect(made).toMatch(/^\d+ rows \(digest [0-9a-f]{64}\) and \d+ files of blobs/);
    return service.stop();
  });
  expect(expected.model).toBe('local/pg/agent:step1');

  const [restored, moved] = [join(folder, 'restored'), join(folder, 'moved')];
  trainyard('restore', backup, '--data-dir', restored);
  // Its connections end some seconds later.
  const move = () => trainyard('db', 'move', '--from', url, '--to', moved, '--json', ...blobs);
  const blobs = ['--blobs-from', dataDirectory, '--blobs-to', moved];
  const report = JSON.parse(move()) as { digest: string; tables: object[]; files: { number: number } };
  expect(report.digest).toMatch(/^[0-9a-f]{64}$/);
  expect(report.files.number).toBeGreaterThan(5);
  for (const place of [restored, moved]) {
    const again = await smallService({ dataDirectory: place, environment: { TRAINYARD_API_KEY: service.apiKey } });
    try {
      expect(await ask(again)).toEqual(expected);
    } finally {
      await again.stop();
    }
  }
}, 400_000);

test('a service with blobs of another database, or without a database, reports it in one line and ends', async () => {
  const other = smallService({ dataDirectory: join(folder, 'other'), environment });
  await expect(other).rejects.toThrow(/The blobs in .*other\/blobs do not belong to this database/);
  const run = (url: string) =>
    spawnSync(process.execPath, ['--conditions=@trainyard/source', MAIN, 'serve', '--data-dir', join(folder, 'none')], {
      encoding: 'utf8',
      env: { ...process.env, TRAINYARD_DATABASE: url, TRAINYARD_MODEL: testModel().small },
    });
  const nowhere = run(`postgres://u:${PASSWORD}@127.0.0.1:9/x`);
  expect(nowhere.status).toBe(1);
  expect(nowhere.stderr).toMatch(
    /^trainyard: database postgres:\/\/127\.0\.0\.1:9\/x: the connection was lost or refused \(connect ECONNREFUSED [^\n]*\)\n$/,
  );
  const unreadable = run(`postgres://u:${PASSWORD}#@127.0.0.1:9/x`);
  expect(unreadable.status).toBe(2);
  expect(unreadable.stderr).toContain('%23 for #');
  for (const { stdout, stderr } of [nowhere, unreadable]) expect(stdout + stderr).not.toContain(PASSWORD);
});
