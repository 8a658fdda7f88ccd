import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { sqlSuite } from '../../testing/sql.suite.ts';
import { storeSuite } from '../../testing/store.suite.ts';
import { openSqliteStore } from '../../open-sqlite-store.ts';
import type { SqlStore } from '../../sql-store.ts';
import { SqliteSql } from './sqlite-sql.ts';

sqlSuite('SQLite', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'trainyard-sql-'));
  const handles: SqliteSql[] = [];
  return {
    async open(options = {}) {
      const sql = new SqliteSql(join(directory, 'store.sqlite'), options);
      handles.push(sql);
      return sql;
    },
    async destroy() {
      for (const sql of handles) await sql.close();
      await rm(directory, { recursive: true });
    },
  };
});

storeSuite('SQLite', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'trainyard-store-'));
  const handles: SqlStore[] = [];
  return {
    async open(options = {}) {
      const store = await openSqliteStore(join(directory, 'store.sqlite'), options);
      handles.push(store);
      return store;
    },
    async destroy() {
      for (const store of handles) await store.close();
      await rm(directory, { recursive: true });
    },
  };
});
