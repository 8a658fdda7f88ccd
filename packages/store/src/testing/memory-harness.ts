import { SqlStore } from '../sql-store.ts';
import type { StoreHarness } from './harness.ts';
import { MemoryDatabase, MemorySql } from './memory-sql.ts';

/** Stores on one database in memory. */
export async function memoryHarness(): Promise<StoreHarness> {
  const database = new MemoryDatabase();
  const handles: SqlStore[] = [];
  return {
    async open(options = {}) {
      const store = new SqlStore(new MemorySql(database), options);
      handles.push(store);
      return store;
    },
    async destroy() {
      for (const store of handles) await store.close();
    },
  };
}
