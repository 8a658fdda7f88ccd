import { mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';

import { afterEach, beforeEach, expect, test } from 'vitest';

import { SqliteSql } from './sqlite-sql.ts';

const ROWS = 20;
const ROW_BYTES = 500_000;

let directory: string;
let path: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'trainyard-reclaim-'));
  path = join(directory, 'store.sqlite');
});
afterEach(() => rm(directory, { recursive: true }));

const megabytes = async (): Promise<number> => {
  const sizes = await Promise.all(
    [path, `${path}-wal`].map(async (file) => (await stat(file).catch(() => ({ size: 0 }))).size),
  );
  return sizes.reduce((sum, size) => sum + size, 0) / 1e6;
};

async function fill(database: SqliteSql): Promise<void> {
  await database.query('create table ballast (content blob) strict', []);
  for (let i = 0; i < ROWS; i++)
    await database.query('insert into ballast (content) values (?)', [Buffer.alloc(ROW_BYTES, i)]);
}

test('room of removed rows goes back to the file system', async () => {
  const database = new SqliteSql(path);
  await fill(database);
  const before = await megabytes();
  await database.query('delete from ballast where rowid > 2', []);
  await database.reclaimSpace();
  const after = await megabytes();
  console.log(`${before.toFixed(1)} MB with ${ROWS} rows, ${after.toFixed(1)} MB with two`);
  expect(before).toBeGreaterThan(9);
  expect(after).toBeLessThan(2.5);
  const kept = await database.query('select content from ballast order by rowid', []);
  expect(kept.rows.map(({ content }) => (content as Uint8Array)[0])).toEqual([0, 1]);
  await database.reclaimSpace();
  await database.close();
});

test('an old file shrinks from its next start on, and keeps its data', async () => {
  const made = new SqliteSql(path);
  await fill(made);
  await made.query('delete from ballast where rowid > 2', []);
  await made.close();
  const old = new DatabaseSync(path);
  old.exec('pragma journal_mode = delete; pragma auto_vacuum = none; vacuum;');
  for (let i = 2; i < ROWS; i++)
    old.prepare('insert into ballast (content) values (?)').run(Buffer.alloc(ROW_BYTES, i));
  expect(old.prepare('pragma auto_vacuum').get()).toEqual({ auto_vacuum: 0 });
  old.close();
  const database = new SqliteSql(path);
  expect((await database.query('pragma auto_vacuum', [])).rows).toEqual([{ auto_vacuum: 2 }]);
  expect((await database.query('pragma integrity_check', [])).rows).toEqual([{ integrity_check: 'ok' }]);
  expect((await database.query('select count(*) as n from ballast', [])).rows).toEqual([{ n: ROWS }]);
  await database.query('delete from ballast', []);
  await database.reclaimSpace();
  expect(await megabytes()).toBeLessThan(1.5);
  await database.close();
});
