import { expect, onTestFinished, test, vi } from 'vitest';

import { MemoryDatabase, MemorySql } from '../testing/memory-sql.ts';
import { UsageBuffer } from './usage-buffer.ts';

test('usage that comes after the end of the database is tried once, and not for ever', async () => {
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
