import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import type { Queries } from '../../contract/sql.ts';
import { sqlSuite } from '../../testing/sql.suite.ts';
import { storeSuite } from '../../testing/store.suite.ts';
import { addJob, addModel } from '../../testing/harness.ts';
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

it('watchers of the feed are notified after the commit of rows added by this process, and of nothing else', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'trainyard-feed-'));
  const path = join(directory, 'store.sqlite');
  const [store, other] = [await openSqliteStore(path), await openSqliteStore(path)];
  const seen: number[] = [];
  const end = store.feed.watch(() => void store.feed.lastPosition().then((position) => seen.push(position)));
  const { id } = await addModel(store);
  await nextTurns();
  expect(seen).toEqual([await store.feed.lastPosition()]);
  await store.keys.ensureEntity('somebody');
  await expect(addModel(store)).rejects.toThrow('model agent exists already');
  await addModel(other, 'other');
  await nextTurns();
  expect(seen).toHaveLength(1);
  await addJob(store, id);
  await nextTurns();
  expect(seen).toHaveLength(2);
  end();
  await addJob(store, id);
  await nextTurns();
  expect(seen).toHaveLength(2);
  for (const one of [store, other]) await one.close();
  await rm(directory, { recursive: true });
});

it('a rollback notifies no watcher, nor does the next commit', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'trainyard-feed-'));
  const path = join(directory, 'store.sqlite');
  const store = await openSqliteStore(path);
  const { entityId } = await addModel(store);
  await store.close();
  const sql = new SqliteSql(path);
  let numWakes = 0;
  sql.watchFeed(() => (numWakes += 1));
  const add = async (queries: Queries) =>
    await queries.query(`insert into feed (entity_id, type, data, created_at) values (?, 'made', '{}', 1)`, [entityId]);
  const failed = sql.transaction(async (queries) => {
    await add(queries);
    throw new Error('no');
  });
  await expect(failed).rejects.toThrow('no');
  await sql.transaction(async (queries) => await queries.query('select 1', []));
  await nextTurns();
  expect(numWakes).toBe(0);
  await add(sql);
  await sql.transaction(add);
  await nextTurns();
  expect(numWakes).toBe(1);
  await sql.close();
  await rm(directory, { recursive: true });
});

it('an invented sign-in is refused without waiting among writers', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'trainyard-sign-ins-'));
  const path = join(directory, 'store.sqlite');
  const store = await openSqliteStore(path);
  const writer = new SqliteSql(path);
  await writer.transaction(async () => {
    expect(await store.signIns.redeemLink('made up')).toBeNull();
    await store.signIns.closeSession('made up');
    expect(await store.signIns.findSession('made up')).toBeNull();
  });
  await writer.close();
  await store.close();
  await rm(directory, { recursive: true });
});

const nextTurns = async () => await new Promise<void>((resolve) => setImmediate(() => setImmediate(resolve)));
