import assert from 'node:assert/strict';
import { existsSync, readdirSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import type { StoreLocation } from '../contract/store-location.ts';
import { PostgresSql } from '../drivers/postgres/postgres-sql.ts';
import { openStore } from '../open-store.ts';
import { fillStore } from '../testing/filled-store.ts';
import { addModel } from '../testing/harness.ts';
import { PostgresCluster } from '../testing/postgres-cluster.ts';
import { copyDatabase, digestDatabase } from './copy-database.ts';
import { digestOf } from './table-digest.ts';
import { TABLE_NAMES } from './table-names.ts';

let cluster: PostgresCluster;
let folder: string;
let source: StoreLocation;
let server: StoreLocation;
beforeAll(async () => {
  const programs = process.env['TRAINYARD_TEST_POSTGRES'];
  assert(programs !== undefined, 'the project `postgres` starts the server');
  cluster = await PostgresCluster.start(programs);
});
afterAll(() => cluster.stop());
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'trainyard-moving-'));
  source = { kind: 'sqlite', path: join(folder, 'trainyard.sqlite') };
  server = { kind: 'postgres', url: await cluster.createSchema() };
  const store = await openStore(source);
  await fillStore(store);
  await store.close();
  return () => rm(folder, { recursive: true });
});
const file = (name: string): StoreLocation => ({ kind: 'sqlite', path: join(folder, name) });
const alone = { isAlone: true };

test('a copy and its return give the same rows in every table, and positions continue', async () => {
  const before = await digestDatabase(source);
  expect(before.filter(({ numRows }) => numRows === 0).map(({ table }) => table)).toEqual([]);
  const there = await copyDatabase(source, server, alone);
  const back = await copyDatabase(server, file('back.sqlite'), alone);
  expect(there).toEqual(before);
  expect(back).toEqual(before);
  expect(digestOf(await digestDatabase(file('back.sqlite')))).toBe(digestOf(before));
  const feeds = [];
  for (const location of [source, server, file('back.sqlite')]) {
    const store = await openStore(location);
    await addModel(store, 'behind');
    feeds.push(await store.feed.lastPosition());
    await store.close();
  }
  expect(new Set(feeds).size).toBe(1);
});

test('a target with rows, a source in use, and another version are refused, and nothing is changed', async () => {
  await expect(copyDatabase(file('none.sqlite'), server, alone)).rejects.toMatchObject({ code: 'store.unavailable' });
  await copyDatabase(source, server, alone);
  await expect(copyDatabase(source, server, alone)).rejects.toThrow('is not empty (the table entities has rows)');
  await expect(copyDatabase(source, source, alone)).rejects.toThrow('is not empty (the file exists)');
  const service = await openStore(server);
  await expect(copyDatabase(server, file('back.sqlite'), alone)).rejects.toThrow(/is in use \(\d+ connections/);
  // A backup while the service runs.
  expect(await copyDatabase(server, file('beside.sqlite'), { isAlone: false })).toEqual(await digestDatabase(source));
  await service.close();
  await expect.poll(() => copyDatabase(server, file('back.sqlite'), alone).then(() => 'done', String)).toBe('done');
});

test('an interrupted one leaves an empty target, and can be repeated', async () => {
  for (const target of [server, file('cut.sqlite')]) {
    const stop = new AbortController();
    let numTables = 0;
    const onTable = () => {
      if (++numTables === 5) stop.abort(new Error('enough'));
    };
    await expect(copyDatabase(source, target, { ...alone, signal: stop.signal, onTable })).rejects.toThrow('enough');
    if (target.kind === 'sqlite') expect(existsSync(target.path)).toBe(false);
    else expect((await digestDatabase(target)).every(({ numRows }) => numRows === 0)).toBe(true);
    expect(await copyDatabase(source, target, alone)).toEqual(await digestDatabase(source));
  }
  expect(readdirSync(folder).filter((name) => name.includes('copying'))).toEqual([]);
});

test('a server that gives its rows backwards is copied alike', async () => {
  const before = await copyDatabase(source, server, alone);
  assert(server.kind === 'postgres');
  const sql = await PostgresSql.open(server.url);
  for (const table of TABLE_NAMES) {
    const { rows } = await sql.query<{ name: string }>(
      'select column_name as name from information_schema.columns where table_schema = current_schema() and table_name = ? and ordinal_position = 2',
      [table],
    );
    const column = rows[0]?.name;
    assert(column !== undefined);
    // A rewritten row moves after all others.
    await sql.query(
      `do $$ declare old_row tid; begin
         for old_row in select ctid from ${table} order by ctid desc loop update ${table} set ${column} = ${column} where ctid = old_row; end loop;
       end $$`,
      [],
    );
  }
  const backwards = await sql.query('select type from job_events order by ctid', []);
  const { rows: written } = await sql.query('select type from job_events order by job_id, seq', []);
  expect(backwards.rows).not.toEqual(written);
  await sql.close();
  for (const name of ['one.sqlite', 'two.sqlite'])
    expect(await copyDatabase(server, file(name), { isAlone: false })).toEqual(before);
});
