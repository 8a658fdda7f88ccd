import { expect, test } from 'vitest';

import { StoreError } from '../contract/errors.ts';
import { SqlStore } from '../sql-store.ts';
import { MemoryDatabase, MemorySql } from '../testing/memory-sql.ts';
import { type DatabaseCall, MeasuredSql } from './measured-sql.ts';

test('each call is reported, with its messages in both directions, and its end', async () => {
  const calls: DatabaseCall[] = [];
  const sql = new MeasuredSql(new MemorySql(new MemoryDatabase()), (call) => calls.push(call));
  await sql.query('select 1 as one', []);
  await sql.transaction(async (queries) => {
    await queries.query('select 1 as one', []);
    await queries.query('select 1 as one', []);
  });
  const busy = sql.transaction(() => Promise.reject(new StoreError('store.busy', 'others have it')));
  await expect(busy).rejects.toThrow('others have it');
  await expect(sql.transaction(() => Promise.reject(new Error('not so')))).rejects.toThrow('not so');
  expect(calls.map(({ kind, outcome, roundTrips }) => [kind, outcome, roundTrips])).toEqual([
    ['query', 'ok', 1],
    ['transaction', 'ok', 4],
    ['transaction', 'store.busy', 2],
    ['transaction', 'error', 2],
  ]);
  for (const { seconds } of calls) expect(seconds).toBeGreaterThanOrEqual(0);
  await sql.close();
});

test('a store reports calls of its users', async () => {
  let numCalls = 0;
  const store = new SqlStore(new MemorySql(new MemoryDatabase()), { onCall: () => (numCalls += 1) });
  await store.keys.ensureEntity('local');
  expect(numCalls).toBeGreaterThan(0);
  await store.close();
});
