import type { Access } from '../access.ts';
import { UsageBuffer } from './usage-buffer.ts';
import type { UsageRecords } from './usage.ts';

export function sqlUsage({ sql, tables, now, flushes, write }: Access): UsageRecords {
  const buffer = new UsageBuffer(sql, now);
  flushes.push(() => buffer.flush());
  return {
    record: (usage) => buffer.add(usage),
    sum: async (query) => {
      await buffer.flush();
      return await tables.usage.sum(query);
    },
    group: async (query) => {
      await buffer.flush();
      return await tables.usage.group(query);
    },
    merge: (before, limit) => write(({ usage }) => usage.merge(before, limit)),
  };
}
