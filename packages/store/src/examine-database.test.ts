import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect, onTestFinished, test } from 'vitest';
import { examineDatabase } from './examine-database.ts';
import { openSqliteStore } from './open-sqlite-store.ts';

async function file(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'trainyard-examine-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  return join(folder, 'trainyard.sqlite');
}

test('a file that is not there yet is well, and so is one in use; it is not made', async () => {
  const path = await file();
  for (let time = 0; time < 2; time++)
    expect(await examineDatabase({ kind: 'sqlite', path })).toEqual({ name: path, problem: null });
  const store = await openSqliteStore(path);
  expect(await examineDatabase({ kind: 'sqlite', path })).toEqual({ name: path, problem: null });
  await store.close();
});

test('a newer schema and an invalid file are reported', async () => {
  const path = await file();
  const newer = new DatabaseSync(path);
  newer.exec('pragma user_version = 9999');
  newer.close();
  expect((await examineDatabase({ kind: 'sqlite', path })).problem).toContain('schema version 9999');
  await writeFile(path, 'text that is longer than the header of a database, and so on and so forth'.repeat(20));
  expect((await examineDatabase({ kind: 'sqlite', path })).problem).toContain('not an SQLite database');
});

test('an unresponsive server is reported without its password', async () => {
  const report = await examineDatabase({ kind: 'postgres', url: 'postgres://u:secret@127.0.0.1:9/d' });
  expect(report.name).toBe('postgres://127.0.0.1:9/d');
  expect(report.problem).toContain('ECONNREFUSED');
  expect(JSON.stringify(report)).not.toContain('secret');
});
