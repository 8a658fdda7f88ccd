/**
 * A cancel reaches the machine that has the job: soon by a notification of the database, later by the
 * machine's own check.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';

import { openStore, type SqlStore, type TrainingJob, type TrainingJobConfig } from '@trainyard/store';
import { PostgresCluster } from '@trainyard/store/testing';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';

import type { JobLease } from './job-lease.ts';
import { type HeldJob, JobMachine, type JobWork } from './job-machine.ts';

type Held = HeldJob<TrainingJobConfig>;

/** Interval of the worker's own checks, see `JobLease`. */
const LOOK_MS = 500;

/** Holds each job until it must leave it, and records the time. */
class Holding implements JobWork<TrainingJobConfig> {
  readonly kinds = ['rl', 'sft'] as const;
  readonly noun = 'job';
  readonly pollMs = 200;
  readonly maxAttempts = 3;
  readonly runs: { readonly jobId: string; endedAt: number | null }[] = [];
  lease: JobLease | null = null;

  async run(job: Held, lease: JobLease): Promise<void> {
    const run = { jobId: job.id, endedAt: null as number | null };
    this.runs.push(run);
    this.lease = lease;
    await new Promise<void>((resolve) => lease.signal.addEventListener('abort', () => resolve(), { once: true }));
    run.endedAt = performance.now();
    lease.signal.throwIfAborted();
  }
  lostTooOften(): Error {
    return new Error('lost too often');
  }
  async fail(): Promise<void> {
    throw new Error('nothing fails here');
  }
  async leave(): Promise<boolean> {
    return false;
  }
  async clear(): Promise<void> {}
}

const programs = process.env['TRAINYARD_TEST_POSTGRES'] ?? '';
let cluster: PostgresCluster;
let url: string;
let api: SqlStore;
let trainer: SqlStore;
let work: Holding;
let machine: JobMachine<TrainingJobConfig>;
/** Number of times the database woke the worker. */
let numWakes = 0;
beforeAll(async () => {
  assert(programs !== '', 'the project `postgres` sets the address of the server');
  cluster = await PostgresCluster.start(programs);
});
afterAll(() => cluster.stop());
beforeEach(async () => {
  url = await cluster.createSchema();
  const open = (instanceId: string) => openStore({ kind: 'postgres', url, maxConnections: 2 }, { instanceId });
  [api, trainer] = [await open('api'), await open('trainer')];
  work = new Holding();
  machine = new JobMachine({ store: trainer, work, log: () => {} });
  numWakes = 0;
  trainer.feed.watch(() => {
    numWakes += 1;
    machine.notify();
  });
});
afterEach(async () => {
  await machine.stop();
  await Promise.all([api.close(), trainer.close()]);
});

const psql = (statement: string) => execFileSync(join(programs, 'psql'), ['-qAt', url, '-c', statement]);

async function submitted(name: string): Promise<TrainingJob> {
  const { id: entityId } = await api.keys.ensureEntity('local');
  const lora = { rank: 8, alpha: 16, targets: ['q'], initSeed: 1 };
  const made = await api.models.create({ entityId, project: 'p', name, baseModel: 'base', lora });
  assert(made.kind === 'created');
  const job = await api.jobs.enqueue({ modelId: made.model.id, kind: 'rl', config: {}, dataKey: 'groups/1' });
  assert(job !== null);
  return job;
}

/** Starts a job and cancels it from the other process. @returns milliseconds until the machine left it */
async function cancelByOther(name: string): Promise<number> {
  const job = await submitted(name);
  await expect.poll(() => work.runs.at(-1)?.jobId).toBe(job.id);
  const run = work.runs.at(-1)!;
  const cancelledAt = performance.now();
  await api.jobs.cancel(job.id, 'enough');
  await expect.poll(() => run.endedAt, { interval: 5 }).not.toBeNull();
  expect(work.lease?.signal.reason).toMatchObject({ code: 'store.lease_lost' });
  return run.endedAt! - cancelledAt;
}

test('a notification has it let go at once, and without any it lets go when it looks', async () => {
  machine.start();
  await expect.poll(() => numWakes).toBeGreaterThan(0);
  const told = await cancelByOther('told');
  expect(numWakes).toBeGreaterThan(1);

  psql('alter table feed disable trigger all');
  await new Promise((over) => setTimeout(over, LOOK_MS));
  const before = numWakes;
  const untold = [];
  for (const name of ['one', 'two', 'three']) untold.push(await cancelByOther(name));
  expect(numWakes).toBe(before);
  console.log(
    `released after ${told.toFixed(0)} ms with a notification, after ${untold.map((ms) => ms.toFixed(0)).join(', ')} ms without: it polls every ${LOOK_MS} ms`,
  );
  expect(work.runs).toHaveLength(4);
});

test('notifications that come twice, late and for nothing change nothing', async () => {
  machine.start();
  psql('create trigger feed_is_told_twice after insert on feed for each row execute function feed_is_told()');
  const job = await submitted('kept');
  await expect.poll(() => work.runs.length).toBe(1);
  const told = "select pg_notify('trainyard', current_schema()) from generate_series(1, 500)";
  for (let burst = 0; burst < 10; burst++) {
    psql(told);
    await new Promise((over) => setTimeout(over, 60));
  }
  await expect.poll(() => numWakes).toBeGreaterThan(3);
  expect(work.runs).toEqual([{ jobId: job.id, endedAt: null }]);
  expect(await api.jobs.get(job.id)).toMatchObject({ status: 'running', numAttempts: 1 });

  await api.jobs.cancel(job.id, 'enough');
  await expect.poll(() => work.runs[0]?.endedAt).not.toBeNull();
  psql(told);
  await cancelByOther('next');
  expect(work.runs).toHaveLength(2);
  expect((await api.jobs.listEvents({ jobId: job.id }))?.items.map(({ type }) => type)).toEqual(['training_failed']);
});
