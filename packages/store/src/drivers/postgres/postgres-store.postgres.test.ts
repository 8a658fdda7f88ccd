import assert from 'node:assert/strict';
import { afterAll, beforeAll } from 'vitest';
import type { SqlStore } from '../../sql-store.ts';
import { sqlSuite } from '../../testing/sql.suite.ts';
import { storeSuite } from '../../testing/store.suite.ts';
import { openPostgresStore } from '../../open-postgres-store.ts';
import { PostgresCluster } from '../../testing/postgres-cluster.ts';
import { SchemaPool } from '../../testing/schema-pool.ts';
import { PostgresSql } from './postgres-sql.ts';

let cluster: PostgresCluster;
let schemas: SchemaPool;
beforeAll(async () => {
  const programs = process.env['TRAINYARD_TEST_POSTGRES'];
  assert(programs !== undefined, 'the project `postgres` starts the server');
  cluster = await PostgresCluster.start(programs);
  schemas = new SchemaPool(cluster.url);
});
afterAll(() => cluster.stop());

sqlSuite('PostgreSQL', async () => {
  const url = await cluster.createSchema();
  const handles: PostgresSql[] = [];
  return {
    async open(options = {}) {
      const sql = await PostgresSql.open(url, { ...options, maxConnections: 2 });
      handles.push(sql);
      return sql;
    },
    async destroy() {
      for (const sql of handles) await sql.close();
    },
  };
});

storeSuite('PostgreSQL', async () => {
  const url = await schemas.take();
  const handles: SqlStore[] = [];
  return {
    async open(options = {}) {
      const store = await openPostgresStore(url, { ...options, maxConnections: 4 });
      handles.push(store);
      return store;
    },
    async destroy() {
      for (const store of handles) await store.close();
      await schemas.giveBack(url);
    },
  };
});
