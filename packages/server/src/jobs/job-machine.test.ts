import { StoreError } from '@trainyard/store';
import { afterEach, expect, test } from 'vitest';

import type { JobLease } from './job-lease.ts';
import { type HeldJob, JobMachine, type JobQueue } from './job-machine.ts';

/** A queue in memory: what a kind of job has to bring, at its smallest. */
class ScriptedQueue implements JobQueue<HeldJob> {
  readonly noun = 'errand';
  readonly pollMs = 60_000;
  readonly maxAttempts = 2;
  readonly waiting: HeldJob[] = [];
  readonly log: string[] = [];
  /** What `run` does; the default is to end. */
  work: (job: HeldJob, lease: JobLease) => Promise<void> = async () => {};
  /** The one that is claimed now; another value when somebody took it away. */
  held: string | null = null;
  failures: unknown[] = [];

  async claim(): Promise<HeldJob | null> {
    const job = this.waiting.shift() ?? null;
    this.held = job?.id ?? null;
    return job;
  }
  async renew({ id }: HeldJob): Promise<void> {
    this.log.push(`renew ${id}`);
    if (this.held !== id) throw new StoreError('store.lease_lost', 'it is gone');
  }
  async isHeld({ id }: HeldJob): Promise<boolean> {
    return this.held === id;
  }
  async release({ id }: HeldJob): Promise<void> {
    this.log.push(`release ${id}`);
  }
  async run(job: HeldJob, lease: JobLease): Promise<void> {
    this.log.push(`run ${job.id}`);
    await this.work(job, lease);
    this.log.push(`end ${job.id}`);
  }
  lostTooOften({ numAttempts }: HeldJob): Error {
    return new Error(`lost ${numAttempts - 1} times`);
  }
  async fail({ id }: HeldJob, error: unknown): Promise<void> {
    const failure = this.failures.shift();
    if (failure !== undefined) throw failure;
    this.log.push(`fail ${id}: ${(error as Error).message}`);
  }
  async leave({ id }: HeldJob): Promise<boolean> {
    this.log.push(`leave ${id}`);
    return false;
  }
  async clear({ id }: HeldJob): Promise<void> {
    this.log.push(`clear ${id}`);
  }
}

let machine: JobMachine<HeldJob> | null = null;
afterEach(() => machine?.stop());

function start(queue: ScriptedQueue, ...jobs: HeldJob[]): JobMachine<HeldJob> {
  queue.waiting.push(...jobs);
  machine = new JobMachine({ queue, workerId: 'w', log: (line) => queue.log.push(line), heartbeatMs: 10 });
  machine.start();
  return machine;
}

const job = (id: string, numAttempts = 1): HeldJob => ({ id, numAttempts });
const lines = (queue: ScriptedQueue) => queue.log.filter((line) => !line.startsWith('renew'));

/** Ends when the signal does, with its reason. */
const untilAborted = (_job: HeldJob, { signal }: JobLease) =>
  new Promise<void>((_resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
  });

test('one job after the other goes from its claim to its end', async () => {
  const queue = new ScriptedQueue();
  start(queue, job('a'), job('b'));
  await expect.poll(() => lines(queue)).toEqual(['run a', 'end a', 'clear a', 'run b', 'end b', 'clear b']);
});

test('what fails is failed, again while the store is busy, and the next one begins', async () => {
  const queue = new ScriptedQueue();
  queue.failures = [new StoreError('store.busy', 'somebody writes')];
  queue.work = async ({ id }) => {
    if (id === 'a') throw new Error('no');
  };
  start(queue, job('a'), job('b'));
  await expect
    .poll(() => lines(queue))
    .toEqual(['run a', 'errand a waits: somebody writes', 'fail a: no', 'clear a', 'run b', 'end b', 'clear b']);
});

test('one that was lost too often fails before it runs', async () => {
  const queue = new ScriptedQueue();
  start(queue, job('a', 2), job('b', 3));
  await expect.poll(() => lines(queue)).toEqual(['run a', 'end a', 'clear a', 'fail b: lost 2 times', 'clear b']);
});

test('a claim is renewed while it runs; when somebody takes it away the work stops and nothing is written', async () => {
  const queue = new ScriptedQueue();
  queue.work = untilAborted;
  start(queue, job('a'));
  await expect.poll(() => queue.log.filter((line) => line === 'renew a').length).toBeGreaterThan(2);
  queue.held = 'another';
  await expect.poll(() => lines(queue)).toEqual(['run a', 'release a', 'leave a', 'clear a']);
});

test('who lets go waits until nothing of it runs, and only of what is meant', async () => {
  const queue = new ScriptedQueue();
  queue.work = untilAborted;
  const started = start(queue, job('a'));
  await expect.poll(() => lines(queue)).toEqual(['run a']);
  expect(await started.letGo(({ id }) => id === 'b', 'x')).toBe(false);
  expect(await started.letGo(({ id }) => id === 'a', 'x')).toBe(true);
  await expect.poll(() => lines(queue)).toEqual(['run a', 'release a', 'leave a', 'clear a']);
});

test('a stop gives the job in hand back and leaves what it needs', async () => {
  const queue = new ScriptedQueue();
  queue.work = untilAborted;
  const started = start(queue, job('a'), job('b'));
  await expect.poll(() => lines(queue)).toEqual(['run a']);
  await started.stop();
  expect(lines(queue)).toEqual(['run a', 'release a']);
  expect(started.isStopping).toBe(true);
});
