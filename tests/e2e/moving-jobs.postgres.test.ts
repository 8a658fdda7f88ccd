/**
 * A job moves with its progress: the machine that trained it is lost with its disk, and another continues
 * from the last snapshot in the blobs.
 */
import assert from 'node:assert/strict';
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

import { Trainyard, type TrainingEventObject } from '@trainyard/sdk';
import { openStore, type SqlStore } from '@trainyard/store';
import { PostgresCluster } from '@trainyard/store/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { programPath } from '../../scripts/program-path.ts';
import { tenLongGroups, WITH_LOGPROBS } from '../support/groups.ts';
import { testModel } from '../support/model.ts';
import { smallService } from '../support/small-service.ts';

const BASE = 'HuggingFaceTB/SmolLM2-135M-Instruct';
const MAIN = programPath('packages/cli/src/main.ts');
const EVERY_STEPS = 2;
const folder = mkdtempSync(join(tmpdir(), 'trainyard-moving-'));
const trainers = new Set<Trainer>();
let cluster: PostgresCluster;
let database: string;
let store: SqlStore;
beforeAll(async () => {
  const programs = process.env['TRAINYARD_TEST_POSTGRES'];
  assert(programs !== undefined, 'the project `postgres` starts the server');
  cluster = await PostgresCluster.start(programs);
  database = await cluster.createSchema();
});
afterAll(async () => {
  for (const { child } of trainers) child.kill('SIGKILL');
  await store?.close();
  await cluster.stop();
  rmSync(folder, { recursive: true });
});

interface Trainer {
  readonly child: ChildProcess;
  readonly dataDirectory: string;
  readonly lines: string[];
}

/** Its own data folder with blobs shared by all parts, as on a shared file system. */
function dataFolder(name: string): string {
  const [blobs, own] = [join(folder, 'blobs'), join(folder, name)];
  mkdirSync(blobs, { recursive: true });
  mkdirSync(own);
  symlinkSync(blobs, join(own, 'blobs'));
  return own;
}

async function startTrainer(name: string, modelId = BASE): Promise<Trainer> {
  const dataDirectory = dataFolder(name);
  const child = spawn(
    process.execPath,
    ['--conditions=@trainyard/source', MAIN, 'serve', '--json', '--role', 'trainer', '--data-dir', dataDirectory],
    {
      env: {
        ...process.env,
        TRAINYARD_DATABASE: database,
        TRAINYARD_MODEL: testModel().small,
        TRAINYARD_MODEL_ID: modelId,
        TRAINYARD_SNAPSHOT_STEPS: String(EVERY_STEPS),
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    },
  );
  const trainer = { child, dataDirectory, lines: [] as string[] };
  trainers.add(trainer);
  createInterface(child.stderr!).on('line', (line) => trainer.lines.push(line));
  for await (const line of createInterface(child.stdout!)) {
    expect(JSON.parse(line)).toMatchObject({ role: 'trainer', models: [modelId] });
    return trainer;
  }
  throw new Error(`the trainer ended before it was ready: ${trainer.lines.join('\n')}`);
}

/** The machine is lost with its disk. */
async function lose(trainer: Trainer): Promise<void> {
  trainers.delete(trainer);
  trainer.child.kill('SIGKILL');
  if (trainer.child.exitCode === null && trainer.child.signalCode === null) await once(trainer.child, 'exit');
  // Its hosts end a moment later, and may write until then.
  rmSync(trainer.dataDirectory, { recursive: true, force: true, maxRetries: 20 });
}

async function endInOrder(trainer: Trainer): Promise<void> {
  trainers.delete(trainer);
  trainer.child.kill('SIGTERM');
  if (trainer.child.exitCode === null) await once(trainer.child, 'exit');
}

const snapshotSteps = async (jobId: string) => (await store.jobs.get(jobId))?.snapshot?.numGradientSteps ?? 0;
const numTold = async (jobId: string) => await store.jobs.countEvents(jobId, 'gradient_step');
/** Waits until the job has reported more than the blobs have. */
async function untilAhead(jobId: string, { lines }: Trainer): Promise<void> {
  for (;;) {
    const [kept, numReported, job] = [await snapshotSteps(jobId), await numTold(jobId), await store.jobs.get(jobId)];
    if (kept > 0 && numReported > kept) return;
    assert(
      job?.finishedAt === null,
      `${numReported} steps were reported, ${kept} are in the blobs: ${lines.join('\n')}`,
    );
    await new Promise((over) => setTimeout(over, 5));
  }
}

const digestOf = async (modelId: string) => (await store.checkpoints.latest(modelId))?.digest;
const keptDirectories = (): string[] => {
  const path = join(folder, 'blobs', 'directories', 'snapshots');
  return readdirSync(path, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.dir'));
};
const measured = ({ data }: TrainingEventObject) =>
  Object.fromEntries(Object.entries(data).filter(([name]) => !/second|memory/.test(name)));

test("jobs of both kinds continue on another machine without the first one's disk, and end as if undisturbed", async () => {
  const environment = { TRAINYARD_DATABASE: database, TRAINYARD_ROLE: 'api,engine' };
  const api = await smallService({ dataDirectory: dataFolder('api'), environment });
  store = await openStore({ kind: 'postgres', url: database, maxConnections: 2 }, { instanceId: 'watcher' });
  try {
    const client = new Trainyard({ baseUrl: api.url, apiKey: api.apiKey, maxRetries: 0 });
    const groups = await tenLongGroups(client, BASE, WITH_LOGPROBS);
    const uploaded = await client.artifacts.upload(
      { entity: 'local', project: 'moving', name: 'facts' },
      ['tea', 'wool', 'iron']
        .map((thing) =>
          JSON.stringify({
            messages: [
              { role: 'user', content: 'What is sold here?' },
              { role: 'assistant', content: `Nothing but ${thing} is.` },
            ],
          }),
        )
        .join('\n'),
      { file_name: 'facts.jsonl' },
    );
    const submit = {
      rl: (modelId: string) =>
        client.trainingJobs.create({
          model_id: modelId,
          trajectory_groups: groups,
          experimental_config: { learning_rate: 1e-4, gradient_steps: 10 },
        }),
      sft: (modelId: string) =>
        client.sftJobs.create({
          model_id: modelId,
          training_data_url: uploaded.url,
          config: { learning_rate: 1e-3, batch_size: 1 },
          experimental_config: { epochs: 8 },
        }),
    };
    const ended = async (jobId: string) => {
      const steps = await client.trainingJobs.gradientSteps(jobId);
      expect((await client.trainingJobs.retrieve(jobId)).status).toBe('succeeded');
      return steps;
    };
    let trainer = await startTrainer('first');
    for (const kind of ['rl', 'sft'] as const) {
      const register = (name: string) =>
        client.models.register({ project: 'moving', name: `${kind}-${name}`, base_model: BASE });
      const undisturbed = await register('undisturbed');
      const expected = await ended((await submit[kind](undisturbed.id)).id);

      const moved = await register('moved');
      const { id } = await submit[kind](moved.id);
      await untilAhead(id, trainer);
      await lose(trainer);
      const [kept, numReported] = [await snapshotSteps(id), await numTold(id)];
      const before = (await client.trainingJobs.events(id)).data.filter(({ type }) => type === 'gradient_step');
      expect(kept).toBeGreaterThanOrEqual(EVERY_STEPS);
      expect(keptDirectories().length).toBeLessThanOrEqual(2);

      trainer = await startTrainer(`after-${kind}`);
      const steps = await ended(id);
      expect(trainer.lines.join('\n')).toContain(
        `job ${id}: it continues after gradient step ${kept} from its snapshot in the blobs`,
      );
      const events = (await client.trainingJobs.events(id, { limit: 100 })).data;
      const after = events.filter(({ type }) => type === 'gradient_step');
      expect(after.slice(0, numReported)).toEqual(before);
      expect(after.map(measured)).toHaveLength(expected.length);
      expect(steps).toHaveLength(expected.length);
      expect(events.filter(({ type }) => type === 'training_ended')).toHaveLength(1);
      expect(await digestOf(moved.id)).toBe(await digestOf(undisturbed.id));
      await expect.poll(keptDirectories).toEqual([]);
      console.log(
        `${kind}: ${numReported} of ${expected.length} steps reported when the machine was lost, ${kept} in the blobs: ${numReported - kept} computed twice, digest ${(await digestOf(moved.id))?.slice(0, 8)} as undisturbed`,
      );
    }

    // On a normal shutdown a trainer saves all its progress.
    const given = await client.models.register({ project: 'moving', name: 'given', base_model: BASE });
    const { id } = await submit.rl(given.id);
    await expect.poll(() => numTold(id), { interval: 10, timeout: 100_000 }).toBeGreaterThan(0);
    await endInOrder(trainer);
    expect(trainer.child.exitCode).toBe(0);
    rmSync(trainer.dataDirectory, { recursive: true });
    const numReported = await numTold(id);
    expect(await snapshotSteps(id)).toBe(numReported);
    console.log(`shut down after ${numReported} steps: 0 computed twice`);

    // A trainer without its base model does not take it, and its reason to wait is readable.
    const other = await startTrainer('other', 'some/other-model');
    const waits = async () => (await client.trainingJobs.retrieve(id)).waiting_for?.code;
    await expect.poll(waits, { timeout: 60_000 }).toBe('base_model');
    await new Promise((over) => setTimeout(over, 2_000));
    expect(await client.trainingJobs.retrieve(id)).toMatchObject({
      status: 'queued',
      waiting_for: { code: 'base_model', message: expect.stringContaining(BASE) },
    });
    trainer = await startTrainer('last');
    await ended(id);
    expect((await client.trainingJobs.retrieve(id)).waiting_for).toBeNull();
    expect(await digestOf(given.id)).toBe(
      await digestOf((await client.models.list({ project: 'moving' })).data[0]!.id),
    );
    await endInOrder(trainer);
    await endInOrder(other);
    await expect.poll(keptDirectories).toEqual([]);
  } finally {
    await api.stop();
  }
}, 600_000);
