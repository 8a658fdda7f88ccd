import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { SqliteSql } from '../drivers/sqlite/sqlite-sql.ts';
import { sqliteCatalogue } from '../testing/catalogue.ts';
import { schemaSuite } from '../testing/schema.suite.ts';

schemaSuite('SQLite', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'trainyard-schema-'));
  const handles: SqliteSql[] = [];
  return {
    open: async (migrations) => {
      const sql = new SqliteSql(join(folder, 'store.sqlite'), migrations && { migrations });
      handles.push(sql);
      return sql;
    },
    version: async (queries) =>
      (await queries.query<{ user_version: number }>('pragma user_version', [])).rows[0]?.user_version ?? 0,
    catalogue: sqliteCatalogue,
    destroy: async () => {
      for (const sql of handles) await sql.close();
      await rm(folder, { recursive: true });
    },
  };
});
