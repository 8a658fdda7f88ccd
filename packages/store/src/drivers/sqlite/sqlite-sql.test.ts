import { createHash } from 'node:crypto';
import { chmod, mkdtemp, open, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { BEFORE_ONE_QUEUE, expectOneQueue, fillBeforeOneQueue } from '../../testing/before-one-queue.ts';
import { addJob, addModel, claim } from '../../testing/harness.ts';
import type { Queries, SqlParameter } from '../../contract/sql.ts';
import { SqliteSql } from './sqlite-sql.ts';
import { SQLITE_WORDS } from './sqlite-words.ts';
import { BEFORE_FIRST_RELEASE } from '../../migrations/before-first-release/index.ts';
import { MIGRATIONS, NEWEST_VERSION } from '../../migrations/index.ts';
import { openSqliteStore } from '../../open-sqlite-store.ts';

const rowOf = async (queries: Queries, statement: string, ...parameters: SqlParameter[]) =>
  (await queries.query(statement, parameters)).rows[0];

describe('the database file', () => {
  let directory: string;
  let path: string;
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'trainyard-store-'));
    path = join(directory, 'below', 'store.sqlite');
  });
  afterEach(() => rm(directory, { recursive: true }));

  it('has a write-ahead log, full fsync, foreign keys, and the newest schema', async () => {
    const database = new SqliteSql(path);
    expect(await rowOf(database, 'pragma journal_mode')).toEqual({ journal_mode: 'wal' });
    expect(await rowOf(database, 'pragma synchronous')).toEqual({ synchronous: 2 });
    expect(await rowOf(database, 'pragma foreign_keys')).toEqual({ foreign_keys: 1 });
    expect(
      await rowOf(database, 'pragma busy_timeout'),
      'SQLite itself never waits: that would block the thread',
    ).toEqual({
      timeout: 0,
    });
    expect(await rowOf(database, 'pragma user_version')).toEqual({ user_version: NEWEST_VERSION });
    const versions = MIGRATIONS.map((migration) => migration.version);
    expect(versions).toEqual([...new Set(versions)].toSorted((first, second) => first - second));
    await database.close();
  });

  it('keeps written data when it is opened again', async () => {
    const before = await openSqliteStore(path);
    const model = await addModel(before);
    await before.close();
    const after = await openSqliteStore(path);
    expect(await after.models.get(model.id)).toEqual(model);
    await after.close();
    await after.close();
    await expect(after.models.get(model.id)).rejects.toMatchObject({ code: 'store.closed' });
  });

  it('a migration that fails leaves the old schema whole', async () => {
    await new SqliteSql(path).close();
    const broken = {
      version: NEWEST_VERSION + 1,
      name: 'broken',
      sql: () => 'create table extra (id integer); create table models (id integer);',
    };
    expect(() => new SqliteSql(path, { migrations: [...MIGRATIONS, broken] })).toThrow('already exists');
    const database = new SqliteSql(path);
    expect(await rowOf(database, 'pragma user_version')).toEqual({ user_version: NEWEST_VERSION });
    expect(await rowOf(database, `select 1 from sqlite_schema where name = 'extra'`)).toBeUndefined();
    await database.close();
  });

  it('a database of the first schema is migrated with its data', async () => {
    const first = new SqliteSql(path, { migrations: BEFORE_FIRST_RELEASE.slice(0, 1) });
    await rowOf(first, `insert into entities values ('e', 'local', 1)`);
    await rowOf(
      first,
      `insert into models (id, entity_id, project, name, base_model, lora, next_step, created_at) values ('m', 'e', 'demo', 'old', 'base', '{}', 1, 1)`,
    );
    await rowOf(
      first,
      `insert into jobs (id, model_id, kind, status, config, groups_key, created_at) values ('j', 'm', 'rl', 'queued', '{}', 'groups/j', 1)`,
    );
    await first.close();
    const store = await openSqliteStore(path);
    expect(await store.models.get('m')).toMatchObject({ name: 'old', warmStart: null, runId: 'm' });
    expect((await store.jobs.claim('worker', 1000))?.pausedAt).toBeNull();
    await store.close();
  });

  it('the steps from before the first release are unchanged', () => {
    const digestOf = (text: string) => createHash('sha256').update(text).digest('hex');
    const digests = BEFORE_FIRST_RELEASE.map(({ sql }) => digestOf(sql(SQLITE_WORDS)).slice(0, 16));
    expect(digests.slice(0, 8)).toEqual([
      'b45f18df936c4de4',
      '870b4df84ca68f0d',
      '3733bae006917b7a',
      'ffdd3c2afb843177',
      '0f0b229bf141e934',
      'c8a596d89549f968',
      'eb00425da14a33bd',
      '31c325fbbf842f73',
    ]);
    expect(digests).toHaveLength(31);
    expect(digestOf(digests.join(' '))).toBe('7363c5ddd9e4ee7c7d0da50c3f079e66618883aa09990920dcb0886282e56ff2');
  });

  it('a database from before exports were jobs is migrated, and references to jobs still hold', async () => {
    const before = new SqliteSql(path, { migrations: BEFORE_FIRST_RELEASE.slice(0, BEFORE_ONE_QUEUE) });
    await fillBeforeOneQueue(before);
    await before.close();
    const store = await openSqliteStore(path);
    await expectOneQueue(store);
    await store.close();
    const database = new SqliteSql(path);
    expect(await rowOf(database, 'pragma foreign_keys')).toEqual({ foreign_keys: 1 });
    await expect(database.query('delete from jobs where id = ?', ['j1'])).rejects.toMatchObject({
      code: 'store.constraint_violated',
    });
    await database.close();
  });

  it('a newer schema is refused with both versions named, and left untouched', async () => {
    const newer = { version: NEWEST_VERSION + 1, name: 'newer', sql: () => 'create table extra (id integer);' };
    await new SqliteSql(path, { migrations: [...MIGRATIONS, newer] }).close();
    expect(() => new SqliteSql(path)).toThrow(
      expect.objectContaining({
        code: 'store.schema_newer',
        message: expect.stringMatching(`version ${newer.version}, .*supports \\(${NEWEST_VERSION}\\)`),
      }),
    );
  });

  it('a file that is no database is corrupt, and named', async () => {
    await new SqliteSql(path).close();
    await writeFile(path, 'not a database at all '.repeat(100));
    const corrupt = expect.objectContaining({ code: 'store.corrupt', message: expect.stringContaining(path) });
    await expect(openSqliteStore(path)).rejects.toEqual(corrupt);
  });

  it('a damaged page is found on open', async () => {
    const store = await openSqliteStore(path);
    for (let i = 0; i < 50; i++) await addModel(store, `model-${i}`);
    await store.close();
    const size = (await readFile(path)).length;
    await using file = await open(path, 'r+');
    // Every page but the first: its header must still identify a database.
    for (let offset = 4096; offset < size; offset += 4096) await file.write(Buffer.alloc(512, 0xa5), 0, 512, offset);
    await file.sync();
    const corrupt = expect.objectContaining({ code: 'store.corrupt', message: expect.stringContaining(path) });
    await expect(openSqliteStore(path)).rejects.toEqual(corrupt);
  });

  it('a full disk fails the write with its own code, keeps nothing of it, and later writes work', async () => {
    const store = await openSqliteStore(path);
    const model = await addModel(store);
    await store.close();
    // SQLite's own limit on pages raises the same SQLITE_FULL as a full disk.
    const database = new SqliteSql(path);
    const pages = (await rowOf(database, 'pragma page_count'))?.['page_count'];
    await rowOf(database, `pragma max_page_count = ${Number(pages)}`);
    const write = () =>
      database.transaction(async (queries) => {
        await queries.query('update models set run_id = ? where id = ?', ['half', model.id]);
        await queries.query('update models set base_model = ? where id = ?', ['x'.repeat(1_000_000), model.id]);
      });
    await expect(write()).rejects.toMatchObject({
      code: 'store.disk_full',
      message: expect.stringContaining(path),
    });
    expect(await rowOf(database, 'select run_id from models')).toEqual({ run_id: model.id });
    expect(database.problem).toBe('the disk of the database is full: nothing is written until space is freed');
    await rowOf(database, 'pragma max_page_count = 1000000');
    await write();
    expect(database.problem).toBeNull();
    expect(await rowOf(database, 'select run_id from models')).toEqual({ run_id: 'half' });
    await database.close();
  });

  it('a lock held too long by another process gives busy', async () => {
    const database = new SqliteSql(path, { busyTimeoutMs: 20 });
    const other = new DatabaseSync(path);
    other.exec('begin immediate');
    await expect(database.transaction(async () => {})).rejects.toMatchObject({ code: 'store.busy' });
    other.exec('rollback');
    other.close();
    expect(await database.transaction(async () => 'free')).toBe('free');
    await database.close();
  });

  it('while another process has the lock, the event loop goes round and reads answer; then the writes come in order', async () => {
    const database = new SqliteSql(path, { busyTimeoutMs: 600_000 });
    const other = new DatabaseSync(path);
    other.exec('begin immediate');
    const order: string[] = [];
    const writes = ['first', 'second', 'third'].map((name) => database.transaction(async () => order.push(name)));
    for (let turn = 0; turn < 100; turn++) await nextTurn();
    expect(await rowOf(database, 'select count(*) as n from models')).toEqual({ n: 0 });
    expect(order).toEqual([]);
    other.exec('rollback');
    other.close();
    await Promise.all([...writes, database.transaction(async () => order.push('late'))]);
    expect(order).toEqual(['first', 'second', 'third', 'late']);
    await database.close();
  });

  it('transactions take turns, and a concurrent read sees all of one or nothing', async () => {
    const database = new SqliteSql(path);
    const order: string[] = [];
    const addEntities = (name: string) =>
      database.transaction(async (queries) => {
        for (const number of [1, 2]) {
          order.push(`${name}${number}`);
          await queries.query('insert into entities values (?, ?, 1)', [`${name}${number}`, `${name}${number}`]);
          await nextTurn();
        }
      });
    const count = async () => (await rowOf(database, 'select count(*) as n from entities'))?.['n'];
    const first = addEntities('a');
    const second = addEntities('b');
    const between = count();
    await expect(
      database.transaction(async (queries) => {
        await queries.query(`insert into entities values ('c', 'c', 1)`, []);
        throw new Error('not so');
      }),
    ).rejects.toThrow('not so');
    await Promise.all([first, second]);
    expect([order, await between, await count()]).toEqual([['a1', 'a2', 'b1', 'b2'], 2, 4]);
    const last = addEntities('d');
    await database.close();
    await last;
    await expect(count()).rejects.toMatchObject({ code: 'store.closed' });
  });

  it('waiting calls fail when the database is closed', async () => {
    const database = new SqliteSql(path, { busyTimeoutMs: 600_000 });
    const other = new DatabaseSync(path);
    other.exec('begin immediate');
    const waiting = database.transaction(async () => 'never');
    await database.close();
    await expect(waiting).rejects.toMatchObject({ code: 'store.closed' });
    other.close();
  });

  it('only its owner can read it, with any umask and creator', async () => {
    const mode = async (file: string) => ((await stat(file)).mode & 0o777).toString(8);
    const store = await openSqliteStore(path);
    await addModel(store);
    const files = [path, `${path}-wal`, `${path}-shm`];
    expect(await Promise.all(files.map(mode))).toEqual(['600', '600', '600']);
    for (const file of files) await chmod(file, 0o644); // as an earlier release left them
    const again = await openSqliteStore(path);
    expect(await Promise.all(files.map(mode))).toEqual(['600', '600', '600']);
    await again.close();
    await store.close();
  });

  it('a path that cannot be written is unavailable', async () => {
    await writeFile(join(directory, 'below'), 'a file where a folder should be');
    await expect(openSqliteStore(path)).rejects.toMatchObject({ code: 'store.unavailable' });
    await chmod(join(directory, 'below'), 0o600);
    await rm(join(directory, 'below'));
    await expect(openSqliteStore(directory)).rejects.toMatchObject({ code: 'store.unavailable' });
  });

  it('no secret is in the file, only its SHA-256', async () => {
    const store = await openSqliteStore(path);
    const { id: entityId } = await store.keys.ensureEntity('local');
    const { secret } = await store.keys.create({ entityId, name: 'k', scopes: ['admin'] });
    await store.close();
    expect((await readFile(path)).includes(secret.slice(3))).toBe(false);
  });

  it('the schema itself refuses a second terminal event, and anything after the first', async () => {
    const store = await openSqliteStore(path);
    const { id } = await addJob(store, (await addModel(store)).id);
    const held = await claim(store);
    await store.jobs.fail(id, held.fencingToken, 'x');
    await store.close();
    const database = new DatabaseSync(path);
    const insert = database.prepare(
      `insert into job_events (id, job_id, seq, type, data, created_at) values (?, ?, 9, ?, '{}', 0)`,
    );
    expect(() => insert.run('e1', id, 'gradient_step')).toThrow('terminal event already');
    database.exec('drop trigger nothing_after_the_terminal_event');
    expect(() => insert.run('e2', id, 'training_ended')).toThrow('UNIQUE constraint');
    database.close();
  });
});
