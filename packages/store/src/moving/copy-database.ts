import { existsSync } from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { syncPath } from '../blobs/durable-file.ts';
import { StoreError } from '../contract/errors.ts';
import type { Queries, SqlParameter, SqlRow } from '../contract/sql.ts';
import type { StoreLocation } from '../contract/store-location.ts';
import { asText, PostgresSql } from '../drivers/postgres/postgres-sql.ts';
import { SqliteSql } from '../drivers/sqlite/sqlite-sql.ts';
import { BATCH_ROWS, type Counter, type DatabaseRows, openRows, POSTGRES_COUNTERS } from './database-rows.ts';
import { RowSum, type TableDigest } from './table-digest.ts';
import { TABLE_NAMES, type TableName } from './table-names.ts';

/** Idle limit of the copy. Other writers wait and get `store.busy`. */
const COPY_IDLE_MS = 600_000;

export interface CopyDatabaseOptions {
  /** Refuses a source that a service uses. False: copies the source as of one moment, next to writers. */
  readonly isAlone: boolean;
  readonly signal?: AbortSignal;
  readonly onTable?: (done: TableDigest) => void;
}

/**
 * Copies every row of every table into an empty database and reads it back. It is all or nothing: a file gets
 * its name when it is whole, a server by a commit.
 *
 * Text with U+0000 is changed if the target cannot hold it; the digests are of the written rows.
 *
 * @returns the digest of each table, equal in both
 * @throws {StoreError} `store.unavailable` if the source is in use, missing or of another version, or the
 *   target is not empty; `store.corrupt` if the target differs afterwards
 */
export async function copyDatabase(
  from: StoreLocation,
  to: StoreLocation,
  options: CopyDatabaseOptions,
): Promise<TableDigest[]> {
  const source = await openRows(from, options);
  try {
    return to.kind === 'sqlite'
      ? await copyIntoFile(source, to.path, options)
      : await copyIntoServer(source, to.url, options);
  } finally {
    await source.close();
  }
}

/**
 * Digests the content of a database as of one moment.
 * @throws {StoreError} as `copyDatabase`
 */
export async function digestDatabase(
  location: StoreLocation,
  { signal }: { signal?: AbortSignal } = {},
): Promise<TableDigest[]> {
  const rows = await openRows(location, { isAlone: false });
  try {
    return await digestRows(rows, signal);
  } finally {
    await rows.close();
  }
}

async function digestRows(database: DatabaseRows, signal: AbortSignal | undefined): Promise<TableDigest[]> {
  const digests: TableDigest[] = [];
  for (const table of TABLE_NAMES) {
    const sum = new RowSum();
    signal?.throwIfAborted();
    for await (const rows of database.rows(table)) {
      signal?.throwIfAborted();
      for (const row of rows) sum.add(row);
    }
    digests.push(sum.of(table));
  }
  return digests;
}

async function copyIntoFile(source: DatabaseRows, path: string, options: CopyDatabaseOptions): Promise<TableDigest[]> {
  const refuseTaken = () => {
    if (existsSync(path)) throw notEmpty(path, 'the file exists');
  };
  refuseTaken();
  const growing = `${path}.copying`;
  const removeGrowing = () =>
    Promise.all(['', '-wal', '-shm'].map((suffix) => rm(`${growing}${suffix}`, { force: true })));
  await removeGrowing();
  try {
    const sql = new SqliteSql(growing);
    let written: TableDigest[];
    try {
      written = await sql.transaction(async (queries) => {
        const digests = await copyRows(source, queries, (value) => value, options);
        await countOnInFile(queries, await source.counters());
        return digests;
      });
    } finally {
      await sql.close();
    }
    refuseDifferences(path, written, await digestDatabase({ kind: 'sqlite', path: growing }, options));
    // Reading it back has left an empty log.
    await Promise.all(['-wal', '-shm'].map((suffix) => rm(`${growing}${suffix}`, { force: true })));
    options.signal?.throwIfAborted();
    refuseTaken();
    await syncPath(growing);
    await rename(growing, path);
    await syncPath(dirname(path));
    return written;
  } finally {
    await removeGrowing();
  }
}

async function copyIntoServer(source: DatabaseRows, url: string, options: CopyDatabaseOptions): Promise<TableDigest[]> {
  const sql = await PostgresSql.open(url, { idleTransactionMs: COPY_IDLE_MS, maxConnections: 1 });
  try {
    return await sql.transaction(async (queries) => {
      for (const table of TABLE_NAMES)
        if ((await queries.query(`select 1 from ${table} limit 1`, [])).rows.length > 0)
          throw notEmpty(sql.name, `the table ${table} has rows`);
      const written = await copyRows(source, queries, asText, options);
      await countOnInServer(queries, await source.counters());
      refuseDifferences(sql.name, written, await digestRows(rowsWithin(sql.name, queries), options.signal));
      options.signal?.throwIfAborted();
      return written;
    });
  } finally {
    await sql.close();
  }
}

async function copyRows(
  source: DatabaseRows,
  target: Queries,
  asStored: (value: SqlParameter) => SqlParameter,
  { signal, onTable }: CopyDatabaseOptions,
): Promise<TableDigest[]> {
  const digests: TableDigest[] = [];
  for (const table of TABLE_NAMES) {
    const sum = new RowSum();
    for await (const rows of source.rows(table)) {
      signal?.throwIfAborted();
      const stored = rows.map(
        (row) => Object.fromEntries(Object.entries(row).map(([name, value]) => [name, asStored(value)])) as SqlRow,
      );
      for (const row of stored) sum.add(row);
      await insert(target, table, stored);
    }
    digests.push(sum.of(table));
    onTable?.(sum.of(table));
  }
  return digests;
}

async function insert(target: Queries, table: TableName, rows: readonly SqlRow[]): Promise<void> {
  const columns = Object.keys(rows[0] ?? {});
  const marks = `(${columns.map(() => '?').join(', ')})`;
  await target.query(
    `insert into ${table} (${columns.join(', ')}) values ${rows.map(() => marks).join(', ')}`,
    rows.flatMap((row) => columns.map((name) => row[name] ?? null)),
  );
}

/** Continues keys after the last used one, even if its row is gone. */
async function countOnInFile(queries: Queries, counters: ReadonlyMap<string, number>): Promise<void> {
  const { rows } = await queries.query<{ name: string }>(
    `select name from sqlite_schema where type = 'table' and sql like '%autoincrement%'`,
    [],
  );
  for (const { name } of rows) {
    const last = counters.get(name) ?? 0;
    if (last === 0) continue;
    await queries.query('delete from sqlite_sequence where name = ?', [name]);
    await queries.query('insert into sqlite_sequence (name, seq) values (?, ?)', [name, last]);
  }
}

async function countOnInServer(queries: Queries, counters: ReadonlyMap<string, number>): Promise<void> {
  const { rows } = await queries.query<Counter>(POSTGRES_COUNTERS, []);
  for (const { table_name: table, column_name: column, sequence } of rows) {
    const found = await queries.query<{ last: number | null }>(`select max(${column}) as last from ${table}`, []);
    const last = Math.max(counters.get(table) ?? 0, found.rows[0]?.last ?? 0);
    if (last > 0) await queries.query('select setval(?::regclass, ?)', [sequence, last]);
  }
}

/** Reads the rows that a transaction has written, before its commit. */
function rowsWithin(name: string, queries: Queries): DatabaseRows {
  return {
    name,
    async *rows(table) {
      await queries.query(`declare ${table}_rows no scroll cursor for select * from ${table}`, []);
      for (;;) {
        const { rows } = await queries.query(`fetch ${BATCH_ROWS} from ${table}_rows`, []);
        if (rows.length === 0) break;
        yield rows;
      }
      await queries.query(`close ${table}_rows`, []);
    },
    counters: async () => new Map(),
    close: async () => undefined,
  };
}

function refuseDifferences(name: string, written: readonly TableDigest[], found: readonly TableDigest[]): void {
  for (const [index, { table, numRows, digest }] of written.entries()) {
    const other = found[index];
    if (other?.digest === digest && other.numRows === numRows) continue;
    throw new StoreError(
      'store.corrupt',
      `database ${name} differs from the copied data: ${table} has ${other?.numRows} rows with the digest ${other?.digest}, expected ${numRows} with ${digest}`,
    );
  }
}

function notEmpty(name: string, why: string): StoreError {
  return new StoreError('store.unavailable', `the target ${name} is not empty (${why}). Choose an empty one`);
}
