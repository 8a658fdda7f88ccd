import { expect, test, vi } from 'vitest';
import { StoreError } from '../../contract/errors.ts';
import type { Queries, Sql } from '../../contract/sql.ts';
import { MemoryDatabase, MemorySql } from '../../testing/memory-sql.ts';
import { RequestsInProgress } from './requests-in-progress.ts';

const lost = () => new StoreError('store.unavailable', 'the connection was lost');
const request = (requestHash = 'h') => ({ keyId: 'k', key: 'once', requestHash });

/** Two processes on a database whose connection can break before a transaction or after its commit. */
function twoProcesses() {
  const database = new MemoryDatabase();
  const sql = new MemorySql(database);
  const breaks: ('before' | 'behind')[] = [];
  const unreliable = {
    transaction: async (body: (queries: Queries) => Promise<unknown>) => {
      const fault = breaks.shift();
      if (fault === 'before') throw lost();
      const result = await sql.transaction(body);
      if (fault === 'behind') throw lost();
      return result;
    },
  } as unknown as Sql;
  const clock = () => Date.now();
  return {
    one: new RequestsInProgress(unreliable, clock, 'one'),
    two: new RequestsInProgress(sql, clock, 'two'),
    breaks,
  };
}

test('a start whose commit was not answered is no request in progress: it may repeat, here at once', async () => {
  const { one, breaks } = twoProcesses();
  breaks.push('behind');
  await expect(one.begin(request())).rejects.toMatchObject({ code: 'store.unavailable' });
  expect(await one.begin(request('another'))).toEqual({ kind: 'started' });
  expect(await one.begin(request('another'))).toEqual({ kind: 'in_progress' });
  one.close();
});

test('one that could not be given up is given up as soon as the database takes it, for others too', async () => {
  vi.useFakeTimers();
  try {
    const { one, two, breaks } = twoProcesses();
    await one.begin(request());
    breaks.push('before', 'before');
    await one.abandon(request());
    expect(await two.begin(request())).toEqual({ kind: 'in_progress' });
    await vi.advanceTimersByTimeAsync(1_000);
    expect(await two.begin(request())).toEqual({ kind: 'in_progress' });
    await vi.advanceTimersByTimeAsync(1_000);
    expect(await two.begin(request())).toEqual({ kind: 'started' });
    one.close();
  } finally {
    vi.useRealTimers();
  }
});

test('giving up late takes nothing from a request that has started since, here or in another process', async () => {
  vi.useFakeTimers();
  try {
    for (const isHere of [true, false]) {
      const { one, two, breaks } = twoProcesses();
      await one.begin(request());
      breaks.push('behind');
      await one.abandon(request());
      const next = isHere ? one : two;
      expect(await next.begin(request())).toEqual({ kind: 'started' });
      await vi.advanceTimersByTimeAsync(2_000);
      expect(await next.begin(request())).toEqual({ kind: 'in_progress' });
      await next.complete({ ...request(), status: 200, body: '{}' });
      expect(await two.begin(request())).toMatchObject({ kind: 'completed' });
      one.close();
    }
  } finally {
    vi.useRealTimers();
  }
});

test('an answer that was kept stays kept when its request is given up', async () => {
  const { one, breaks } = twoProcesses();
  await one.begin(request());
  breaks.push('behind');
  await expect(one.complete({ ...request(), status: 200, body: '{}' })).rejects.toMatchObject({
    code: 'store.unavailable',
  });
  await one.abandon(request());
  expect(await one.begin(request())).toMatchObject({ kind: 'completed', status: 200 });
  one.close();
});

test('a request stays in progress as long as a process works on it', async () => {
  vi.useFakeTimers();
  try {
    const { one, two } = twoProcesses();
    await one.begin(request());
    await vi.advanceTimersByTimeAsync(600_000);
    expect(await two.begin(request())).toEqual({ kind: 'in_progress' });
    one.close();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(await two.begin(request())).toEqual({ kind: 'started' });
    two.close();
  } finally {
    vi.useRealTimers();
  }
});
