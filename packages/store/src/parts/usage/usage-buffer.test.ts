import { expect, onTestFinished, test, vi } from 'vitest';
import { StoreError } from '../../contract/errors.ts';
import type { Queries, Sql } from '../../contract/sql.ts';
import { MemoryDatabase, MemorySql } from '../../testing/memory-sql.ts';
import { openTables } from '../tables.ts';
import { UsageBuffer } from './usage-buffer.ts';

const USAGE = { keyId: 'k', entityId: 'e', project: 'p', model: 'm', kind: 'chat' } as const;

test.each([['before'], ['behind']])(
  'a connection that breaks %s a commit neither loses usage nor counts it twice',
  async (where) => {
    const sql = new MemorySql(new MemoryDatabase());
    let [now, breaks] = [1_000_000, false];
    const unreliable = {
      transaction: async (body: (queries: Queries) => Promise<unknown>) => {
        const lost = new StoreError('store.unavailable', 'the connection was lost');
        if (breaks && where === 'before') throw lost;
        const result = await sql.transaction(body);
        if (breaks) throw lost;
        return result;
      },
    } as unknown as Sql;
    const buffer = new UsageBuffer(unreliable, () => now);
    let numAdded = 0;
    for (const [isBroken, passesMs] of [
      [true, 0],
      [true, 2_000],
      [false, 0],
      [true, 0],
      [true, 2_000],
      [false, 2_000],
      [false, 0],
    ] as const) {
      breaks = isBroken;
      now += passesMs;
      void buffer.add({ ...USAGE, promptTokens: 3, completionTokens: 5 });
      numAdded += 1;
      await buffer.flush().catch(() => undefined);
      if (isBroken) continue;
      const [total] = await openTables(sql).usage.sum({});
      expect(total).toMatchObject({
        numRequests: numAdded,
        promptTokens: 3 * numAdded,
        completionTokens: 5 * numAdded,
      });
    }
  },
);

test('usage after the end of the database is tried once, not forever', async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const sql = new MemorySql(new MemoryDatabase());
  const buffer = new UsageBuffer(sql, () => 0);
  await sql.close();
  const usage = { keyId: 'k', entityId: 'e', project: null, model: 'm', kind: 'chat' as const };
  void buffer.add({ ...usage, promptTokens: 1, completionTokens: 1 });
  await vi.advanceTimersByTimeAsync(1_000);
  expect(vi.getTimerCount()).toBe(0);
});
