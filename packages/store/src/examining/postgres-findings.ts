import { randomInt } from 'node:crypto';

import type pg from 'pg';

import { ClosingClient } from '../drivers/postgres/closing-client.ts';
import { connectionString } from '../drivers/postgres/connection-string.ts';
import { PostgresSql } from '../drivers/postgres/postgres-sql.ts';
import { NEWEST_VERSION } from '../migrations/index.ts';
import type { Finding } from './finding.ts';

const TIMEOUT_MS = 5_000;
/** Limit of a notification, which takes a round trip. */
const NOTIFICATION_MS = 3_000;
/** A process uses one per concurrent call, up to `--database-connections`, and one that listens. */
const MIN_FREE_CONNECTIONS = 3;
/** Number of queries; the fastest measures the round trip. */
const NUM_ROUND_TRIPS = 5;
/**
 * Leases use the database's clock; a bucket refuses signatures that are a quarter of an hour off, and logs of
 * several machines are compared.
 */
const MAX_CLOCK_SECONDS = 30;

/**
 * Checks a reachable database for use by several processes: latency, version, clock, and notifications
 * between connections. Changes nothing.
 */
export async function* postgresFindings(url: string): AsyncGenerator<Finding> {
  const [one, two] = [await connect(url), await connect(url)];
  try {
    yield await aboutServer(one, url);
    yield await aboutConnections(one);
    yield await aboutClock(one);
    yield await aboutLocks(one, two);
    yield await aboutNotifications(one, two);
  } finally {
    for (const client of [one, two]) client.end().catch(() => undefined);
  }
}

async function connect(url: string): Promise<pg.Client> {
  const client = new ClosingClient({
    connectionString: connectionString(url),
    application_name: 'trainyard doctor',
    connectionTimeoutMillis: TIMEOUT_MS,
    query_timeout: TIMEOUT_MS,
  });
  // A lost connection also fails its current query.
  client.on('error', () => undefined);
  await client.connect();
  return client;
}

async function aboutServer(client: pg.Client, url: string): Promise<Finding> {
  const { rows } = await client.query<{ version: string }>(`select current_setting('server_version') as version`);
  const times: number[] = [];
  for (let i = 0; i < NUM_ROUND_TRIPS; i++) {
    const startedAt = performance.now();
    await client.query('select 1');
    times.push(performance.now() - startedAt);
  }
  const major = Number(rows[0]?.version.split('.')[0]);
  const schema = await PostgresSql.versionOf(url);
  const schemaWords =
    schema === 0
      ? 'no schema yet'
      : `schema ${schema} of ${NEWEST_VERSION}${schema < NEWEST_VERSION ? ', updated at the next start' : ''}`;
  return {
    name: 'database_server',
    subject: `PostgreSQL ${rows[0]?.version}, round trip ${Math.min(...times).toFixed(1)} ms, ${schemaWords}`,
    problem: major >= 13 ? null : 'PostgreSQL 13 or newer is required. Upgrade the server',
  };
}

/** Checks the room for one more process: the limit of the server or, if lower, of the user. */
async function aboutConnections(client: pg.Client): Promise<Finding> {
  const { rows } = await client.query<{ used: number; own: number; most: number }>(
    `select count(*)::int as used, (count(*) filter (where application_name = 'trainyard'))::int as own,
       (current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int) as most
     from pg_stat_activity where backend_type = 'client backend'`,
  );
  const { rows: limits } = await client.query<{ used: number; most: number }>(
    `select (select count(*) from pg_stat_activity where usename = current_user)::int as used, rolconnlimit as most
     from pg_roles where rolname = current_user and rolconnlimit >= 0 and not rolsuper`,
  );
  const { used = 0, own = 0, most = 0 } = rows[0] ?? {};
  const limit = limits[0];
  const words = limit === undefined ? '' : `; ${limit.used} of ${limit.most} for this user`;
  const numFree = Math.min(most - used, limit === undefined ? Infinity : limit.most - limit.used);
  return {
    name: 'database_connections',
    subject: `${used} of ${most} connections are in use, ${own} of them Trainyard's${words}`,
    problem:
      numFree >= MIN_FREE_CONNECTIONS
        ? null
        : 'too few free connections for another process. Raise max_connections (or the limit of the user), lower --database-connections, or use a connection pooler',
  };
}

async function aboutClock(client: pg.Client): Promise<Finding> {
  const startedAt = Date.now();
  const { rows } = await client.query<{ now: string }>('select extract(epoch from clock_timestamp()) as now');
  const ended = Date.now();
  const seconds = ((startedAt + ended) / 2 - 1000 * Number(rows[0]?.now)) / 1000;
  const apart = `${Math.abs(seconds).toFixed(1)} s ${seconds < 0 ? 'behind' : 'ahead of'}`;
  return {
    name: 'database_clock',
    subject: `the clock of this machine is ${apart} the database's`,
    problem:
      Math.abs(seconds) <= MAX_CLOCK_SECONDS
        ? null
        : 'synchronise both clocks with NTP: leases use only the clock of the database, but log times and bucket signatures do not',
  };
}

/** Checks the advisory locks by which writers of all machines take turns. */
async function aboutLocks(one: pg.Client, two: pg.Client): Promise<Finding> {
  const key = randomInt(2 ** 31);
  const tried = async () => {
    const { rows } = await two.query<{ got: boolean }>(`select pg_try_advisory_xact_lock(${key}) as got`);
    return rows[0]?.got === true;
  };
  await one.query('begin');
  await one.query(`select pg_advisory_xact_lock(${key})`);
  const isKept = !(await tried());
  await one.query('rollback');
  const isFree = await tried();
  return {
    name: 'database_locks',
    subject: 'locks between connections',
    problem:
      isKept && isFree
        ? null
        : 'a lock of one connection does not block another: the address leads to several servers. Use the address of one primary',
  };
}

async function aboutNotifications(one: pg.Client, two: pg.Client): Promise<Finding> {
  const channel = `trainyard_doctor_${randomInt(2 ** 31)}`;
  const heard = Promise.withResolvers<boolean>();
  one.on('notification', (notification) => {
    if (notification.channel === channel) heard.resolve(true);
  });
  const timer = setTimeout(() => heard.resolve(false), NOTIFICATION_MS);
  await one.query(`listen ${channel}`);
  await two.query(`notify ${channel}`);
  const isHeard = await heard.promise;
  clearTimeout(timer);
  await one.query(`unlisten ${channel}`);
  return {
    name: 'database_notifications',
    subject: 'notifications between connections',
    problem: isHeard
      ? null
      : "no notification arrived, possibly because of a pooler in transaction mode. The service works, but polls twice per second. Use the server's own address or a pooler in session mode",
  };
}
