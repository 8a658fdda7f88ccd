import assert from 'node:assert/strict';
import { afterAll, beforeAll } from 'vitest';

import { PostgresSql } from '../drivers/postgres/postgres-sql.ts';
import { postgresCatalogue } from '../testing/catalogue.ts';
import { PostgresCluster } from '../testing/postgres-cluster.ts';
import { schemaSuite } from '../testing/schema.suite.ts';

let cluster: PostgresCluster;
beforeAll(async () => {
  const programs = process.env['TRAINYARD_TEST_POSTGRES'];
  assert(programs !== undefined, 'the project `postgres` says where the server is');
  cluster = await PostgresCluster.start(programs);
});
afterAll(() => cluster.stop());

schemaSuite('PostgreSQL', async () => {
  const url = await cluster.createSchema();
  const handles: PostgresSql[] = [];
  return {
    open: async (migrations) => {
      const sql = await PostgresSql.open(url, { maxConnections: 1, ...(migrations && { migrations }) });
      handles.push(sql);
      return sql;
    },
    version: async (queries) =>
      (await queries.query<{ version: number }>('select version from schema_version', [])).rows[0]?.version ?? 0,
    catalogue: postgresCatalogue,
    destroy: async () => {
      for (const sql of handles) await sql.close();
    },
  };
});
