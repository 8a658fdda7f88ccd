import { StoreError } from '../contract/errors.ts';
import { migrationsFor } from '../migrations/index.ts';
import type { Migration } from '../migrations/migration.ts';
import type { SchemaWords } from '../contract/schema-words.ts';

/**
 * Statements that migrate a database from its schema to the newest.
 *
 * @param database name for error messages
 * @param current its version, 0 for an empty database
 * @returns null if it is up to date
 * @throws {StoreError} `store.schema_newer`
 */
export function pendingStatements(
  database: string,
  current: number,
  words: SchemaWords,
  migrations: readonly Migration[] = migrationsFor(current),
): { statements: string[]; newest: number } | null {
  const newest = migrations.at(-1)?.version ?? 0;
  if (current === newest) return null;
  if (current > newest) {
    throw new StoreError(
      'store.schema_newer',
      `database ${database} has schema version ${current}, newer than this release supports (${newest}). Run the newer release, or restore a backup`,
    );
  }
  return { statements: migrations.filter(({ version }) => version > current).map(({ sql }) => sql(words)), newest };
}
