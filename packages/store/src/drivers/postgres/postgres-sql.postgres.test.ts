import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { FolderBlobs } from '../../blobs/folder-blobs.ts';
import { examineDatabase } from '../../examine-database.ts';
import { checkOwnBlobs } from '../../blobs/own-blobs.ts';
import { BEFORE_FIRST_RELEASE } from '../../migrations/before-first-release/index.ts';
import { MIGRATIONS, NEWEST_VERSION } from '../../migrations/index.ts';
import type { Queries } from '../../contract/sql.ts';
import { BEFORE_ONE_QUEUE, expectOneQueue, fillBeforeOneQueue } from '../../testing/before-one-queue.ts';
import { addJob, addModel, claim } from '../../testing/harness.ts';
import { openPostgresStore } from '../../open-postgres-store.ts';
import { PostgresCluster } from '../../testing/postgres-cluster.ts';
import { PostgresProxy } from '../../testing/postgres-proxy.ts';
import { connectionFault, postgresFault } from './postgres-fault.ts';
import { PostgresSql } from './postgres-sql.ts';

let cluster: PostgresCluster;
beforeAll(async () => {
  const programs = process.env['TRAINYARD_TEST_POSTGRES'];
  assert(programs !== undefined, 'the project `postgres` starts the server');
  cluster = await PostgresCluster.start(programs);
});
afterAll(() => cluster.stop());

const addEntity = (queries: Queries, name: string) =>
  queries.query('insert into entities values (?, ?, 1)', [name, name]);
const numEntities = async (queries: Queries) =>
  (await queries.query<{ n: number }>('select count(*) as n from entities', [])).rows[0]?.n;

describe('a PostgreSQL database', () => {
  let url: string;
  beforeEach(async () => {
    url = await cluster.createSchema();
  });

  it('is brought up to date once, however many processes open it at the same time', async () => {
    const handles = await Promise.all(Array.from({ length: 4 }, () => PostgresSql.open(url, { maxConnections: 1 })));
    const versions = await handles[0]!.query('select version from schema_version', []);
    expect(versions.rows).toEqual([{ version: NEWEST_VERSION }]);
    for (const sql of handles) await sql.close();
  });

  it('a database of an earlier schema keeps its data; one of a newer schema is refused', async () => {
    const first = await PostgresSql.open(url, { migrations: BEFORE_FIRST_RELEASE.slice(0, 1) });
    await addEntity(first, 'local');
    await first.close();
    const store = await openPostgresStore(url);
    expect(await store.keys.ensureEntity('local')).toMatchObject({ id: 'local' });
    await store.close();
    const newer = { version: NEWEST_VERSION + 1, name: 'newer', sql: () => 'create table extra (id bigint);' };
    await (await PostgresSql.open(url, { migrations: [...MIGRATIONS, newer] })).close();
    await expect(PostgresSql.open(url)).rejects.toMatchObject({ code: 'store.schema_newer' });
  });

  it('a database from before exports were jobs is migrated, and references to jobs still hold', async () => {
    const before = await PostgresSql.open(url, { migrations: BEFORE_FIRST_RELEASE.slice(0, BEFORE_ONE_QUEUE) });
    await fillBeforeOneQueue(before);
    await before.close();
    const store = await openPostgresStore(url);
    await expectOneQueue(store);
    await store.close();
    const sql = await PostgresSql.open(url);
    await expect(sql.query('delete from jobs where id = ?', ['j1'])).rejects.toMatchObject({
      code: 'store.constraint_violated',
    });
    await sql.close();
  });

  it('a full disk is reported until a write succeeds', async () => {
    const sql = await PostgresSql.open(url);
    const full = "do $$ begin raise exception 'No space left on device' using errcode = '53100'; end $$";
    await expect(sql.transaction((queries) => queries.query(full, []))).rejects.toMatchObject({
      code: 'store.disk_full',
    });
    expect(sql.problem).toBe('the disk of the database is full: nothing is written until space is freed');
    await sql.transaction(async () => {});
    expect(sql.problem).toBeNull();
    await sql.close();
  });

  it('writers take turns, over handles and within one; readers wait for none', async () => {
    const [one, two] = [await PostgresSql.open(url), await PostgresSql.open(url)];
    const order: string[] = [];
    const [written, seen] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const write = (sql: PostgresSql, name: string) =>
      sql.transaction(async (queries) => {
        order.push(`${name}1`);
        await addEntity(queries, name);
        written.resolve();
        await seen.promise;
        order.push(`${name}2`);
      });
    const first = write(one, 'a');
    await written.promise;
    expect(await numEntities(two)).toBe(0);
    seen.resolve();
    await Promise.all([first, write(two, 'b'), write(one, 'c'), write(two, 'd')]);
    for (let at = 0; at < order.length; at += 2) expect(order[at]?.[0]).toBe(order[at + 1]?.[0]);
    expect([order.length, await numEntities(two)]).toEqual([8, 4]);
    for (const sql of [one, two]) await sql.close();
  });

  it('a transaction that fails leaves nothing, and one that waits for too long is busy', async () => {
    const [one, two] = [await PostgresSql.open(url), await PostgresSql.open(url, { busyTimeoutMs: 100 })];
    const failing = one.transaction(async (queries) => {
      await addEntity(queries, 'a');
      throw new Error('not so');
    });
    await expect(failing).rejects.toThrow('not so');
    const [started, free] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const holding = one.transaction(async () => {
      started.resolve();
      await free.promise;
    });
    await started.promise;
    await expect(two.transaction((queries) => addEntity(queries, 'b'))).rejects.toMatchObject({ code: 'store.busy' });
    expect(two.problem).toBeNull();
    free.resolve();
    await holding;
    await two.transaction((queries) => addEntity(queries, 'b'), { isDurable: false });
    expect(await numEntities(one)).toBe(1);
    for (const sql of [one, two]) await sql.close();
    await expect(numEntities(one)).rejects.toMatchObject({ code: 'store.closed' });
    await expect(one.transaction(numEntities)).rejects.toMatchObject({ code: 'store.closed' });
  });

  it('lost connections fail running calls, and the next call has new ones', async () => {
    const sql = await PostgresSql.open(url);
    const cut = sql.transaction(async (queries) => {
      await addEntity(queries, 'a');
      await cluster.disconnectAll();
      await addEntity(queries, 'b');
    });
    await expect(cut).rejects.toMatchObject({ code: 'store.unavailable' });
    expect(await numEntities(sql)).toBe(0);
    await sql.transaction((queries) => addEntity(queries, 'a'));
    await sql.close();
  });

  it('idle connections that are lost are counted: no call fails for them', async () => {
    const sql = await PostgresSql.open(url);
    await sql.transaction((queries) => addEntity(queries, 'a'), { isDurable: false });
    expect(sql.numLostConnections).toBe(0);
    await cluster.disconnectAll();
    await expect.poll(() => sql.numLostConnections).toBeGreaterThan(0);
    expect(await numEntities(sql)).toBe(1);
    await sql.close();
  });

  it('calls waiting for an unanswered transaction fail together with it, without one more wait each', async () => {
    const proxy = await PostgresProxy.start([url]);
    const sql = await PostgresSql.open(proxy.addressOf(url), { answerTimeoutMs: 200 });
    proxy.fallSilent();
    let numBegun = 0;
    const waiting = Array.from({ length: 50 }, () =>
      sql.transaction(async () => {
        numBegun += 1;
      }),
    );
    // Each alone would take the time of a connection, 5 s.
    for (const result of await Promise.allSettled(waiting))
      expect(result).toMatchObject({ status: 'rejected', reason: { code: 'store.unavailable' } });
    expect(numBegun).toBe(0);
    await proxy.stop();
    await sql.close();
  });

  it('a read that hangs is given up, and neither the pool nor the server keeps a connection for it', async () => {
    const holder = await PostgresSql.open(url, { idleTransactionMs: 60_000 });
    const reader = await PostgresSql.open(url, { answerTimeoutMs: 200, maxConnections: 1 });
    const numWaiting = async () => {
      const waiting = `select count(*) as n from pg_stat_activity where wait_event_type = 'Lock' and query like '%from entities%'`;
      return (await reader.query<{ n: number }>(waiting, [])).rows[0]?.n;
    };
    const [locked, free] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const holding = holder.transaction(async (queries) => {
      await queries.query('lock table entities in access exclusive mode', []);
      locked.resolve();
      await free.promise;
    });
    await locked.promise;
    for (let round = 0; round < 3; round++)
      await expect(numEntities(reader)).rejects.toMatchObject({ code: 'store.unavailable' });
    await expect.poll(numWaiting).toBe(0);
    free.resolve();
    await holding;
    expect(await numEntities(reader)).toBe(0);
    for (const sql of [holder, reader]) await sql.close();
  }, 60_000);

  it("a missing database or refused value gives the store's error, without the password", async () => {
    const nowhere = PostgresSql.open('postgresql://somebody:secret@localhost/x?host=/nowhere');
    await expect(nowhere).rejects.toMatchObject({
      code: 'store.unavailable',
      message: expect.not.stringContaining('secret'),
    });
    const store = await openPostgresStore(url);
    const lora = { rank: 1, alpha: 1, targets: [], initSeed: 0 };
    const unknown = { entityId: 'nobody', project: 'p', name: 'n', baseModel: 'b', lora };
    await expect(store.models.create(unknown)).rejects.toMatchObject({ code: 'store.constraint_violated' });
    await store.close();
  });

  it('characters that text cannot hold are replaced, and JSON keeps them', async () => {
    const store = await openPostgresStore(url);
    const entity = await store.keys.ensureEntity('a\0b');
    expect(entity.name).toBe('a\uFFFDb');
    expect(await store.keys.ensureEntity('a\0b')).toEqual(entity);
    expect(await store.models.get('\0')).toBeNull();
    const { id } = await addJob(store, (await addModel(store)).id);
    const { fencingToken } = await claim(store);
    await store.jobs.appendEvent(id, fencingToken, { type: 'warning', data: { text: 'a\0b\uD800' } });
    await store.jobs.fail(id, fencingToken, 'it said \0');
    expect((await store.jobs.listEvents({ jobId: id }))?.items[0]?.data).toEqual({ text: 'a\0b\uD800' });
    expect(await store.jobs.get(id)).toMatchObject({ errorMessage: 'it said \uFFFD' });
    await store.close();
  });

  it('is looked at without being changed: an empty one, one that is up to date, a newer one', async () => {
    const look = () => examineDatabase({ kind: 'postgres', url });
    expect((await look()).problem).toBeNull();
    const sql = await PostgresSql.open(url);
    expect((await look()).problem).toBeNull();
    await sql.query('update schema_version set version = 9999', []);
    expect((await look()).problem).toContain('schema version 9999');
    await sql.close();
  });

  it("leases and times use the server's clock, for any local time", async () => {
    const [early, late] = [await openPostgresStore(url), await openPostgresStore(url)];
    const { id } = await addJob(early, (await addModel(early)).id);
    const before = Date.now();
    const wrong = vi.spyOn(Date, 'now').mockReturnValue(before + 3_600_000);
    try {
      const held = await claim(early, 'early', 1_000);
      expect(Math.abs(held.lease.expiresAt - before - 1_000)).toBeLessThan(30_000);
      expect(Math.abs(early.clock.now() - before)).toBeLessThan(30_000);
      await early.jobs.renew(id, held.fencingToken, 60_000);
      wrong.mockReturnValue(before + 7_200_000);
      expect(await late.jobs.claim('late', 60_000)).toBeNull();
    } finally {
      wrong.mockRestore();
      for (const store of [early, late]) await store.close();
    }
  });

  it("watchers of the feed are notified of others' rows, in this schema, and once more after a lost connection", async () => {
    const otherSchema = await openPostgresStore(await cluster.createSchema());
    const [one, two] = [await openPostgresStore(url), await openPostgresStore(url)];
    let numWakes = 0;
    const end = two.feed.watch(() => (numWakes += 1));
    await expect.poll(() => numWakes).toBe(1);
    const model = await addModel(one);
    await expect.poll(() => numWakes).toBe(2);
    await addModel(otherSchema);
    await cluster.disconnectAll();
    await expect.poll(() => numWakes).toBe(3);
    await addJob(one, model.id);
    await expect.poll(() => numWakes).toBe(4);
    end();
    await addJob(one, model.id);
    await addJob(two, model.id);
    for (const store of [one, two, otherSchema]) await store.close();
    expect(numWakes).toBe(4);
  });

  it('a process suspended during a transaction loses it, and others can write', async () => {
    const [still, other] = [await PostgresSql.open(url, { idleTransactionMs: 200 }), await PostgresSql.open(url)];
    const written = Promise.withResolvers<void>();
    const moved = Promise.withResolvers<void>();
    const standing = still.transaction(async (queries) => {
      await addEntity(queries, 'still');
      written.resolve();
      await moved.promise;
      await addEntity(queries, 'more');
    });
    await written.promise;
    await other.transaction((queries) => addEntity(queries, 'other'));
    moved.resolve();
    await expect(standing).rejects.toMatchObject({ code: 'store.unavailable' });
    expect(await numEntities(still)).toBe(1);
    for (const sql of [still, other]) await sql.close();
  });

  it('a start waits longer than a call: as long as a suspended process may block it', async () => {
    const still = await PostgresSql.open(url, { idleTransactionMs: 1_000 });
    const started = Promise.withResolvers<void>();
    const moved = Promise.withResolvers<void>();
    const standing = still.transaction(async () => {
      started.resolve();
      await moved.promise;
    });
    await started.promise;
    const starting = await PostgresSql.open(url, { busyTimeoutMs: 50 });
    moved.resolve();
    await expect(standing).rejects.toMatchObject({ code: 'store.unavailable' });
    for (const sql of [still, starting]) await sql.close();
  });

  it('services that start together on an empty database and the same blobs agree; other blobs are refused', async () => {
    const folders = await Promise.all([1, 2].map(() => mkdtemp(join(tmpdir(), 'trainyard-own-blobs-'))));
    const [shared, others] = [await FolderBlobs.open(folders[0]!), await FolderBlobs.open(folders[1]!)];
    const stores = await Promise.all([1, 2, 3].map(() => openPostgresStore(url)));
    await Promise.all(stores.map((store) => checkOwnBlobs(store, shared)));
    expect(await shared.listKeys()).toEqual([`places/${await stores[0]!.files.blobsId()}`]);
    await others.putJson('logs/of-another-service', {});
    await expect(checkOwnBlobs(stores[0]!, others)).rejects.toMatchObject({
      code: 'store.unavailable',
      message: expect.stringContaining(folders[1]!),
    });
    for (const part of [...stores, shared, others]) await part.close();
    for (const folder of folders) await rm(folder, { recursive: true });
  });

  it('the schema itself refuses a second terminal event, and anything after the first', async () => {
    const store = await openPostgresStore(url);
    const { id } = await addJob(store, (await addModel(store)).id);
    await store.jobs.fail(id, (await claim(store)).fencingToken, 'x');
    await store.close();
    const sql = await PostgresSql.open(url);
    const insert = sql.query(
      `insert into job_events (id, job_id, seq, type, data, created_at) values ('e', ?, 9, 'gradient_step', '{}', 0)`,
      [id],
    );
    await expect(insert).rejects.toMatchObject({
      code: 'store.constraint_violated',
      message: expect.stringContaining('terminal event already'),
    });
    await sql.close();
  });
});

it('an unavailable server is reported meanwhile, and answers again once it is back', async () => {
  const away = await PostgresCluster.start(process.env['TRAINYARD_TEST_POSTGRES']!);
  try {
    const url = await away.createSchema();
    const store = await openPostgresStore(url);
    let numWakes = 0;
    store.feed.watch(() => (numWakes += 1));
    await expect.poll(() => numWakes).toBe(1);
    await away.goAway();
    await expect(store.keys.ensureEntity('local')).rejects.toMatchObject({ code: 'store.unavailable' });
    expect(store.database.problem()).toMatch(/^the database has not answered for \d+ s$/);
    await expect(openPostgresStore(url)).rejects.toMatchObject({ code: 'store.unavailable' });
    await away.comeBack();
    await expect.poll(() => store.keys.ensureEntity('local').catch(() => null)).toMatchObject({ name: 'local' });
    expect(store.database.problem()).toBeNull();
    await expect.poll(() => numWakes).toBeGreaterThan(1);
    await store.close();
  } finally {
    await away.stop();
  }
});

it('an unreadable address is refused without being printed', async () => {
  await expect(openPostgresStore('postgres://u:se#cret@host/db')).rejects.toMatchObject({
    code: 'store.unavailable',
    message: expect.not.stringMatching(/se#?cret/),
  });
});

it.each([
  ['57014', 'store.busy'],
  ['53200', 'store.unavailable'],
  ['53100', 'store.disk_full'],
  ['XX001', 'store.corrupt'],
  ['57P01', 'store.unavailable'],
  ['55P03', 'store.busy'],
  ['23505', 'store.constraint_violated'],
])('SQLSTATE %s is %s', (code, expected) => {
  expect(postgresFault(Object.assign(new Error('x'), { code }), 'd')).toMatchObject({ code: expected });
});

it.each([
  [
    'self-signed certificate in certificate chain',
    '; add the certificate of its authority with sslrootcert=PATH in the address',
  ],
  ['SASL: client password must be a string', '; the server requires a password: set PGPASSWORD or PGPASSFILE'],
  ['something new', ''],
])('the database is unavailable if a connection fails for any reason: %s', (message, remedy) => {
  expect(connectionFault(new Error(message), 'd')).toMatchObject({
    code: 'store.unavailable',
    message: `database d: cannot connect (${message})${remedy}`,
  });
  expect(connectionFault(Object.assign(new Error(message), { code: '53300' }), 'd')).toMatchObject({
    message: expect.stringContaining('too many connections'),
  });
});

it('errors that are not from PostgreSQL stay unchanged', () => {
  for (const error of [new Error('a bug'), Object.assign(new Error('x'), { code: '42601' }), 'text'])
    expect(postgresFault(error, 'd')).toBe(error);
});
