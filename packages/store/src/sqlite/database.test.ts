import { chmod, mkdtemp, open, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { addJob, addModel, claim } from '../suite/harness.ts';
import { Database } from './database.ts';
import { MIGRATIONS } from './migrations/index.ts';
import { SqliteStore } from './sqlite-store.ts';

/** Version of the newest schema. */
const NEWEST = Math.max(...MIGRATIONS.map((migration) => migration.version));

describe('the database file', () => {
  let directory: string;
  let path: string;
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'trainyard-store-'));
    path = join(directory, 'below', 'store.sqlite');
  });
  afterEach(() => rm(directory, { recursive: true }));

  it('has a write-ahead log, full fsync, foreign keys, and the newest schema', () => {
    const database = new Database(path);
    expect(database.get('pragma journal_mode')).toEqual({ journal_mode: 'wal' });
    expect(database.get('pragma synchronous')).toEqual({ synchronous: 2 });
    expect(database.get('pragma foreign_keys')).toEqual({ foreign_keys: 1 });
    expect(database.get('pragma busy_timeout'), 'SQLite itself never waits: that would block the thread').toEqual({
      timeout: 0,
    });
    expect(database.get('pragma user_version')).toEqual({ user_version: NEWEST });
    const versions = MIGRATIONS.map((migration) => migration.version);
    expect(versions).toEqual([...new Set(versions)].toSorted((first, second) => first - second));
    database.close();
  });

  it('keeps what was written when it is opened again', async () => {
    const before = await SqliteStore.open(path);
    const model = await addModel(before);
    await before.close();
    const after = await SqliteStore.open(path);
    expect(await after.getModel(model.id)).toEqual(model);
    await after.close();
    await after.close();
    await expect(after.getModel(model.id)).rejects.toMatchObject({ code: 'store.closed' });
  });

  it('a migration that fails leaves the old schema whole', () => {
    new Database(path).close();
    const broken = {
      version: MIGRATIONS.length + 1,
      name: 'broken',
      sql: 'create table extra (id integer); create table models (id integer);',
    };
    expect(() => new Database(path, { migrations: [...MIGRATIONS, broken] })).toThrow('already exists');
    const database = new Database(path);
    expect(database.get('pragma user_version')).toEqual({ user_version: MIGRATIONS.length });
    expect(database.get(`select 1 from sqlite_schema where name = 'extra'`)).toBeUndefined();
    database.close();
  });

  it('a database of the first schema is brought up to date with what it holds', async () => {
    const first = new Database(path, { migrations: MIGRATIONS.slice(0, 1) });
    first.run(`insert into entities values ('e', 'local', 1)`);
    first.run(
      `insert into models (id, entity_id, project, name, base_model, lora, next_step, created_at) values ('m', 'e', 'demo', 'old', 'base', '{}', 1, 1)`,
    );
    first.run(
      `insert into jobs (id, model_id, kind, status, config, groups_key, created_at) values ('j', 'm', 'rl', 'queued', '{}', 'groups/j', 1)`,
    );
    first.close();
    const store = await SqliteStore.open(path);
    expect(await store.getModel('m')).toMatchObject({ name: 'old', init: null });
    expect((await store.claimNextJob('worker', 1000))?.pausedAt).toBeNull();
    await store.close();
  });

  it('a newer schema is refused with both versions named, and left untouched', () => {
    const newer = { version: MIGRATIONS.length + 1, name: 'newer', sql: 'create table extra (id integer);' };
    new Database(path, { migrations: [...MIGRATIONS, newer] }).close();
    expect(() => new Database(path)).toThrow(
      expect.objectContaining({
        code: 'store.schema_newer',
        message: expect.stringMatching(`version ${newer.version}, .* up to ${MIGRATIONS.length}`),
      }),
    );
  });

  it('a file that is no database is called corrupt, by name', async () => {
    new Database(path).close();
    await writeFile(path, 'not a database at all '.repeat(100));
    const corrupt = expect.objectContaining({ code: 'store.corrupt', message: expect.stringContaining(path) });
    await expect(SqliteStore.open(path)).rejects.toEqual(corrupt);
  });

  it('a damaged page is found on open', async () => {
    const store = await SqliteStore.open(path);
    for (let i = 0; i < 50; i++) await addModel(store, `model-${i}`);
    await store.close();
    const size = (await readFile(path)).length;
    await using file = await open(path, 'r+');
    // Every page but the first: its header must still say that this is a database.
    for (let offset = 4096; offset < size; offset += 4096) await file.write(Buffer.alloc(512, 0xa5), 0, 512, offset);
    await file.sync();
    const corrupt = expect.objectContaining({ code: 'store.corrupt', message: expect.stringContaining(path) });
    await expect(SqliteStore.open(path)).rejects.toEqual(corrupt);
  });

  it('a full disk fails the write with its own code, keeps nothing of it, and later writes work', async () => {
    const store = await SqliteStore.open(path);
    const model = await addModel(store);
    await store.close();
    // SQLite's own limit on pages raises the same SQLITE_FULL as a full disk.
    const database = new Database(path);
    const pages = database.get<{ page_count: number }>('pragma page_count')?.page_count ?? 0;
    database.get(`pragma max_page_count = ${pages}`);
    const write = () =>
      database.write(() => {
        database.run('update models set run_id = ? where id = ?', 'half', model.id);
        database.run('update models set base_model = ? where id = ?', 'x'.repeat(1_000_000), model.id);
      });
    await expect(write()).rejects.toMatchObject({
      code: 'store.disk_full',
      message: expect.stringContaining(path),
    });
    expect(database.get('select run_id from models')).toEqual({ run_id: null });
    database.get('pragma max_page_count = 1000000');
    await write();
    expect(database.get('select run_id from models')).toEqual({ run_id: 'half' });
    database.close();
  });

  it('a lock held by another process for too long is called busy', async () => {
    const database = new Database(path, { busyTimeoutMs: 20 });
    const other = new DatabaseSync(path);
    other.exec('begin immediate');
    await expect(database.write(() => {})).rejects.toMatchObject({ code: 'store.busy' });
    other.exec('rollback');
    other.close();
    expect(await database.write(() => 'free')).toBe('free');
    database.close();
  });

  it('while another process has the lock, the event loop goes round and reads answer; then the writes come in order', async () => {
    const database = new Database(path, { busyTimeoutMs: 600_000 });
    const other = new DatabaseSync(path);
    other.exec('begin immediate');
    const order: string[] = [];
    const writes = ['first', 'second', 'third'].map((name) => database.write(() => order.push(name)));
    for (let turn = 0; turn < 100; turn++) await nextTurn();
    expect(await database.read(() => database.get('select count(*) as n from models'))).toEqual({ n: 0 });
    expect(order).toEqual([]);
    other.exec('rollback');
    other.close();
    await Promise.all([...writes, database.write(() => order.push('late'))]);
    expect(order).toEqual(['first', 'second', 'third', 'late']);
    database.close();
  });

  it('what waits when the database is closed is told so', async () => {
    const database = new Database(path, { busyTimeoutMs: 600_000 });
    const other = new DatabaseSync(path);
    other.exec('begin immediate');
    const waiting = database.write(() => 'never');
    database.close();
    await expect(waiting).rejects.toMatchObject({ code: 'store.closed' });
    other.close();
  });

  it('only its owner can read it, whatever the umask and whoever made it', async () => {
    const mode = async (file: string) => ((await stat(file)).mode & 0o777).toString(8);
    const store = await SqliteStore.open(path);
    await addModel(store);
    const files = [path, `${path}-wal`, `${path}-shm`];
    expect(await Promise.all(files.map(mode))).toEqual(['600', '600', '600']);
    for (const file of files) await chmod(file, 0o644); // as an earlier release left them
    const again = await SqliteStore.open(path);
    expect(await Promise.all(files.map(mode))).toEqual(['600', '600', '600']);
    await again.close();
    await store.close();
  });

  it('a place that cannot be written is called unavailable', async () => {
    await writeFile(join(directory, 'below'), 'a file where a folder should be');
    await expect(SqliteStore.open(path)).rejects.toMatchObject({ code: 'store.unavailable' });
    await chmod(join(directory, 'below'), 0o600);
    await rm(join(directory, 'below'));
    await expect(SqliteStore.open(directory)).rejects.toMatchObject({ code: 'store.unavailable' });
  });

  it('no secret is in the file, only its SHA-256', async () => {
    const store = await SqliteStore.open(path);
    const { id: entityId } = await store.ensureEntity('local');
    const { secret } = await store.createKey({ entityId, name: 'k', scopes: ['admin'] });
    await store.close();
    expect((await readFile(path)).includes(secret.slice(3))).toBe(false);
  });

  it('the schema itself refuses a second terminal event, and anything after the first', async () => {
    const store = await SqliteStore.open(path);
    const { id } = await addJob(store, (await addModel(store)).id);
    const held = await claim(store);
    await store.finishJobFailed(id, held.fencingToken, 'x');
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
