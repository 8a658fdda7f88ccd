import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
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

it('a sign-in that somebody made up is refused without a turn among those who write', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'trainyard-sign-ins-'));
  const path = join(directory, 'store.sqlite');
  const store = await openSqliteStore(path);
  const writer = new SqliteSql(path);
  await writer.transaction(async () => {
    expect(await store.redeemSignInLink('made up')).toBeNull();
    await store.closeSession('made up');
    expect(await store.findSession('made up')).toBeNull();
  });
  await writer.close();
  await store.close();
  await rm(directory, { recursive: true });
});
