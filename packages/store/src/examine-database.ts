import { existsSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { StoreError } from './contract/errors.ts';
import { sqliteFault } from './drivers/sqlite/sqlite-fault.ts';
import { DAMAGE_REMEDIES } from './drivers/damage-remedies.ts';
import { NEWEST_VERSION } from './migrations/index.ts';
import type { StoreLocation } from './contract/store-location.ts';

export interface DatabaseReport {
  /** Name for messages, without a password. */
  readonly name: string;
  /** The fault and its remedy; null if there is none, also for a database that a start would create. */
  readonly problem: string | null;
}

/** Examines a database without changing it, also while a service uses it. */
export async function examineDatabase(location: StoreLocation): Promise<DatabaseReport> {
  if (location.kind === 'sqlite') return { name: location.path, problem: fileProblem(location.path) };
  const { databaseName, PostgresSql } = await import('./drivers/postgres/postgres-sql.ts');
  try {
    return { name: databaseName(location.url), problem: versionProblem(await PostgresSql.versionOf(location.url)) };
  } catch (error) {
    const problem = error instanceof StoreError ? error.message : String(error);
    return { name: URL.canParse(location.url) ? databaseName(location.url) : 'PostgreSQL', problem };
  }
}

function fileProblem(path: string): string | null {
  if (!existsSync(path)) return null;
  try {
    using connection = new DatabaseSync(path, { readOnly: true, timeout: 2_000 });
    const damage = connection.prepare('pragma quick_check(1)').get()?.['quick_check'];
    if (damage !== 'ok') return `the file is damaged (${String(damage)}). ${DAMAGE_REMEDIES}`;
    return versionProblem(Number(connection.prepare('pragma user_version').get()?.['user_version']));
  } catch (error) {
    return (sqliteFault(error, path) as Error).message;
  }
}

function versionProblem(version: number): string | null {
  const newest = NEWEST_VERSION;
  return version <= newest ? null : `schema version ${version} is newer than this release supports (${newest})`;
}
