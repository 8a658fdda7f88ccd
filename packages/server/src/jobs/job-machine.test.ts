import { type ClaimedJob, type ExportJob, StoreError } from '@trainyard/store';
import { afterEach, expect, test } from 'vitest';

import type { JobLease } from './job-lease.ts';
import { type HeldJob, JobMachine, type JobMachineOptions, type JobWork } from './job-machine.ts';

type Held = HeldJob<'export'>;

/** A queue in memory with the smallest implementation of a job kind. */
class ScriptedQueue implements JobWork<'export'> {
  readonly kinds = ['export'] as const;
  readonly noun = 'errand';
  readonly pollMs = 60_000;
  readonly maxAttempts = 2;
  readonly waiting: Held[] = [];
  readonly log: string[] = [];
  /** Behaviour of `run`; by default it ends at once. */
  work: (job: Held, lease: JobLease) => Promise<void> = async () => {};
  /** Current claim; a different value after another worker took the job. */
  held: string | null = null;
  failures: unknown[] = [];

  readonly store = {
    instanceId: 'w',
    jobs: {
      claim: async (): Promise<Held | null> => {
        const job = this.waiting.shift() ?? null;
        this.held = job?.id ?? null;
        return job;
      },
      renew: async (id: string): Promise<void> => {
        this.log.push(`renew ${id}`);
        if (this.held !== id) throw new StoreError('store.lease_lost', 'it is gone');
      },
      get: async (id: string): Promise<ExportJob> => ({ ...job(id), lease: this.held === id ? LEASE : null }),
      release: async (id: string): Promise<void> => {
        this.log.push(`release ${id}`);
        if (this.held !== id) throw new StoreError('store.lease_lost', 'it is gone');
      },
    },
  } as unknown as JobMachineOptions<'export'>['store'];

  async run(job: Held, lease: JobLease): Promise<void> {
    this.log.push(`run ${job.id}`);
    await this.work(job, lease);
    this.log.push(`end ${job.id}`);
  }
  lostTooOften({ numAttempts }: Held): Error {
    return new Error(`lost ${numAttempts - 1} times`);
  }
  async fail({ id }: Held, error: unknown): Promise<void> {
    const failure = this.failures.shift();
    if (failure !== undefined) throw failure;
    this.log.push(`fail ${id}: ${(error as Error).message}`);
  }
  async leave({ id }: Held): Promise<boolean> {
    this.log.push(`leave ${id}`);
    return false;
  }
  async clear({ id }: Held): Promise<void> {
    this.log.push(`clear ${id}`);
  }
}

const LEASE = { owner: 'w', fencingToken: 1, expiresAt: 0 };

let machine: JobMachine<'export'> | null = null;
afterEach(() => machine?.stop());

function start(queue: ScriptedQueue, ...jobs: Held[]): JobMachine<'export'> {
  queue.waiting.push(...jobs);
  machine = new JobMachine({ store: queue.store, work: queue, log: (line) => queue.log.push(line), heartbeatMs: 10 });
  machine.start();
  return machine;
}

const origin = { requestId: null, traceParent: null, project: null };
const job = (id: string, numAttempts = 1) =>
  ({ id, kind: 'export', numAttempts, lease: LEASE, fencingToken: 1, origin }) as ClaimedJob<ExportJob>;
const lines = (queue: ScriptedQueue) => queue.log.filter((line) => !line.startsWith('renew'));

/** Rejects when the signal aborts, with its reason. */
const untilAborted = (_job: Held, { signal }: JobLease) =>
  new Promise<void>((_resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
  });

test('one job after the other goes from its claim to its end', async () => {
  const queue = new ScriptedQueue();
  start(queue, job('a'), job('b'));
  await expect.poll(() => lines(queue)).toEqual(['run a', 'end a', 'clear a', 'run b', 'end b', 'clear b']);
});

test('a job that fails is recorded as failed, with retries while the store is busy, and the next one starts', async () => {
  const queue = new ScriptedQueue();
  queue.failures = [new StoreError('store.busy', 'another process writes')];
  queue.work = async ({ id }) => {
    if (id === 'a') throw new Error('no');
  };
  start(queue, job('a'), job('b'));
  await expect
    .poll(() => lines(queue))
    .toEqual(['run a', 'errand a waits: another process writes', 'fail a: no', 'clear a', 'run b', 'end b', 'clear b']);
});

test('one that was lost too often fails before it runs', async () => {
  const queue = new ScriptedQueue();
  start(queue, job('a', 2), job('b', 3));
  await expect.poll(() => lines(queue)).toEqual(['run a', 'end a', 'clear a', 'fail b: lost 2 times', 'clear b']);
});

test('a claim is renewed during the run; when it is taken away the work stops and nothing is written', async () => {
  const queue = new ScriptedQueue();
  queue.work = untilAborted;
  start(queue, job('a'));
  await expect.poll(() => queue.log.filter((line) => line === 'renew a').length).toBeGreaterThan(2);
  queue.held = 'another';
  await expect.poll(() => lines(queue)).toEqual(['run a', 'release a', 'leave a', 'clear a']);
});

test('a release waits until the job has stopped, and affects only matching jobs', async () => {
  const queue = new ScriptedQueue();
  queue.work = untilAborted;
  const started = start(queue, job('a'));
  await expect.poll(() => lines(queue)).toEqual(['run a']);
  expect(await started.releaseJob(({ id }) => id === 'b', 'x')).toBe(false);
  expect(await started.releaseJob(({ id }) => id === 'a', 'x')).toBe(true);
  await expect.poll(() => lines(queue)).toEqual(['run a', 'release a', 'leave a', 'clear a']);
});

test('a stop releases the current job and keeps its files', async () => {
  const queue = new ScriptedQueue();
  queue.work = untilAborted;
  const started = start(queue, job('a'), job('b'));
  await expect.poll(() => lines(queue)).toEqual(['run a']);
  await started.stop();
  expect(lines(queue)).toEqual(['run a', 'release a']);
  expect(started.isStopping).toBe(true);
});
