import { join } from 'node:path';

import { openStore, type SqlStore, type SqlStoreOptions, type StoreLocation } from '@trainyard/store';
import { SchemaPool, SERVER_VARIABLE } from '@trainyard/store/testing';

/** Variable for tests on PostgreSQL; their project sets its address, see `servicePostgresProject`. */
const STORE_VARIABLE = 'TRAINYARD_TEST_STORE';

/** Kept for the process: files that share it use the same schemas. */
let pool: SchemaPool | undefined;
const schemas = new Map<string, Promise<string>>();

/** Database of a folder: a file in it, or its own schema for tests on PostgreSQL. */
export async function testDatabase(directory: string): Promise<StoreLocation> {
  if (process.env[STORE_VARIABLE] !== 'postgres') return { kind: 'sqlite', path: join(directory, 'trainyard.sqlite') };
  const server = process.env[SERVER_VARIABLE];
  if (server === undefined) throw new Error(`${SERVER_VARIABLE} has no database address`);
  let url = schemas.get(directory);
  pool ??= new SchemaPool(server);
  if (url === undefined) schemas.set(directory, (url = pool.take()));
  return { kind: 'postgres', url: await url, maxConnections: 4 };
}

/** Lets other tests use the database of a folder. All of its stores are closed. */
export async function releaseTestDatabase(directory: string): Promise<void> {
  const url = schemas.get(directory);
  if (url === undefined) return;
  schemas.delete(directory);
  await pool!.giveBack(await url);
}

/** A store on {@link testDatabase}: the same database for each folder. */
export async function openTestStore(
  directory: string,
  options: SqlStoreOptions & { busyTimeoutMs?: number } = {},
): Promise<SqlStore> {
  return await openStore(await testDatabase(directory), options);
}
