import { memoryHarness } from './memory-harness.ts';
import { MemoryDatabase, MemorySql } from './memory-sql.ts';
import { sqlSuite } from './sql.suite.ts';
import { storeSuite } from './store.suite.ts';

sqlSuite('in memory', async () => {
  const database = new MemoryDatabase();
  const handles: MemorySql[] = [];
  return {
    async open(options) {
      const sql = new MemorySql(database, options);
      handles.push(sql);
      return sql;
    },
    async destroy() {
      for (const sql of handles) await sql.close();
    },
  };
});

storeSuite('in memory', memoryHarness);
