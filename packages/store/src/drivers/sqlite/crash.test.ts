import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { addJob, addModel } from '../../testing/harness.ts';
import type { TrainingJob } from '../../parts/jobs/jobs.ts';
import { SqliteSql } from './sqlite-sql.ts';
import { openSqliteStore } from '../../open-sqlite-store.ts';
import type { SqlStore } from '../../sql-store.ts';

const CHURN = fileURLToPath(new URL('./job-churn.fixture.ts', import.meta.url));

describe('SQLite in several processes', () => {
  let directory: string;
  let path: string;
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'trainyard-store-'));
    path = join(directory, 'store.sqlite');
  });
  afterEach(() => rm(directory, { recursive: true }));

  it(
    'a process killed among its writes leaves whole jobs and keeps all it acknowledged',
    { timeout: 60_000 },
    async () => {
      const setup = await openSqliteStore(path);
      for (const name of ['one', 'two', 'three']) await addModel(setup, name);
      await setup.close();

      const acknowledged = new Set<string>();
      let numSucceeded = 0;
      for (let life = 0; life < 6; life++) {
        const child = startChurn(path, `life-${life}`, 'forever');
        await isReady(child);
        child.stdin.write('go\n');
        await once(child.stdout, 'readable'); // it is at work, even on a busy machine
        const output = text(child.stdout);
        await new Promise((resolve) => setTimeout(resolve, 40 + 53 * life));
        child.kill('SIGKILL');
        for (const id of finishedIds(await output)) acknowledged.add(id);

        const store = await openSqliteStore(path, { instanceId: `life-${life}` }); // runs SQLite's own check
        const jobs = await listAllJobs(store);
        const problems = await findHalfFinished(store, jobs);
        expect(problems).toEqual([]);
        const ended = new Set(jobs.filter((job) => job.finishedAt !== null).map((job) => job.id));
        expect([...acknowledged].filter((id) => !ended.has(id))).toEqual([]);
        numSucceeded = jobs.filter((job) => job.status === 'succeeded').length;
        await store.recoverAfterRestart();
        await store.close();
      }
      console.log(`6 kills: ${acknowledged.size} jobs acknowledged, ${numSucceeded} succeeded, none half-finished`);
      expect(numSucceeded).toBeGreaterThan(0);
    },
  );

  it('three processes that drain one queue do every job once', { timeout: 60_000 }, async () => {
    const store = await openSqliteStore(path);
    const jobIds: string[] = [];
    for (let i = 0; i < 6; i++) {
      const model = await addModel(store, `m${i}`);
      for (let j = 0; j < 5; j++) jobIds.push((await addJob(store, model.id)).id);
    }
    const children = ['a', 'b', 'c'].map((id) => startChurn(path, id, 'drain'));
    await Promise.all(children.map(isReady));
    for (const child of children) child.stdin.write('go\n');
    const outputs = await Promise.all(children.map((child) => text(child.stdout)));
    const finished = outputs.flatMap((output) => [...finishedIds(output)]);
    console.log(`30 jobs over three processes: ${outputs.map((output) => finishedIds(output).size).join(' + ')}`);
    expect(outputs.filter((output) => output.includes('finished')).length).toBeGreaterThan(1);
    expect(finished).toHaveLength(jobIds.length);
    expect(new Set(finished)).toEqual(new Set(jobIds));
    expect(await findHalfFinished(store, await listAllJobs(store))).toEqual([]);
    await store.close();
  });

  it('processes that open a fresh file at the same time agree on one schema', { timeout: 60_000 }, async () => {
    const children = Array.from({ length: 4 }, (_, i) => startChurn(path, `${i}`, 'drain'));
    for (const child of children) child.stdin.write('go\n');
    const codes = await Promise.all(children.map(async (child) => (await once(child, 'exit'))[0]));
    expect(codes).toEqual([0, 0, 0, 0]);
    await new SqliteSql(path).close();
  });
});

type Churn = ChildProcess & { stdin: Writable; stdout: Readable };

function startChurn(path: string, workerId: string, mode: 'drain' | 'forever'): Churn {
  const args = ['--conditions=@trainyard/source', '--no-warnings', CHURN, path, workerId, mode];
  return spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'inherit'] });
}

async function isReady(child: Churn): Promise<void> {
  await once(child.stdout, 'readable');
  expect(String(child.stdout.read())).toBe('ready\n');
}

async function listAllJobs(store: SqlStore): Promise<TrainingJob[]> {
  const jobs: TrainingJob[] = [];
  for (let hasMore = true; hasMore;) {
    const page = await store.jobs.list({ limit: 1000, after: jobs.at(-1)?.id ?? null });
    jobs.push(...page.items);
    hasMore = page.hasMore;
  }
  return jobs;
}

function finishedIds(output: string): Set<string> {
  return new Set([...output.matchAll(/^finished (.+)$/gm)].map((match) => match[1] ?? ''));
}

/** Checks the invariants of every job; each breach is one sentence. */
async function findHalfFinished(store: SqlStore, jobs: readonly TrainingJob[]): Promise<string[]> {
  const problems: string[] = [];
  const numSucceeded = new Map<string, number>();
  for (const job of jobs) {
    const events = (await store.jobs.listEvents({ jobId: job.id, limit: 1000 }))?.items ?? [];
    const terminal = events.filter((event) => event.type === 'training_ended' || event.type === 'training_failed');
    const expected = { succeeded: 'training_ended', failed: 'training_failed', cancelled: 'training_failed' };
    if (job.status === 'queued' || job.status === 'running') {
      if (terminal.length > 0) problems.push(`${job.status} job ${job.id} has a terminal event`);
    } else if (terminal.length !== 1 || events.at(-1)?.type !== expected[job.status]) {
      problems.push(`${job.status} job ${job.id} ends in ${terminal.map((event) => event.type).join()}`);
    }
    if (job.finishedAt !== null && events.length !== 5)
      problems.push(`job ${job.id} has ${events.length} events, not 5`);
    if (events.some((event, index) => event.seq !== index)) problems.push(`the events of job ${job.id} have gaps`);
    if (job.status === 'succeeded') numSucceeded.set(job.modelId, (numSucceeded.get(job.modelId) ?? 0) + 1);
  }
  for (const model of (await store.models.list({ limit: 1000 })).items) {
    const checkpoints = (await store.checkpoints.list({ modelId: model.id, limit: 1000 })).items;
    const numExpected = 1 + (numSucceeded.get(model.id) ?? 0);
    if (checkpoints.length !== numExpected)
      problems.push(`${model.name}: ${checkpoints.length} checkpoints, not ${numExpected}`);
    if (model.nextStep !== numExpected) problems.push(`${model.name}: next step ${model.nextStep}, not ${numExpected}`);
  }
  return problems;
}
