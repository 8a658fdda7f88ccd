import { existsSync, statSync } from 'node:fs';

import type { Queries } from '../contract/sql.ts';
import type { StoreLocation } from '../contract/store-location.ts';
import { NEWEST_VERSION } from '../migrations/index.ts';
import { openTables } from '../tables/tables.ts';
import type { Finding } from './finding.ts';
import { lookAtFile } from './look-at-file.ts';

/** Counts the checkpoints of a database and sums their sizes. Nothing is found before the first start, or under an older schema. */
export async function* checkpointFindings(database: StoreLocation): AsyncGenerator<Finding> {
  if (database.kind === 'postgres') {
    const { PostgresSql } = await import('../drivers/postgres/postgres-sql.ts');
    if ((await PostgresSql.versionOf(database.url)) === NEWEST_VERSION)
      yield await PostgresSql.look(database.url, sumUp);
    return;
  }
  if (!existsSync(database.path) || statSync(database.path).size === 0) return;
  const finding = await lookAtFile(database.path, async (queries) => {
    const { rows } = await queries.query<{ user_version: number }>('pragma user_version', []);
    return rows[0]?.user_version === NEWEST_VERSION ? await sumUp(queries) : null;
  });
  if (finding !== null) yield finding;
}

async function sumUp(queries: Queries): Promise<Finding> {
  const totals = await openTables(queries).retention.sum();
  const { numCheckpoints, numMarked, numUnmeasured, sizeBytes, optimizerBytes } = totals;
  const unmeasured = numUnmeasured === 0 ? '' : `, ${numUnmeasured} not measured yet`;
  return {
    name: 'checkpoints',
    subject: `${numCheckpoints} checkpoints (${numMarked} marked${unmeasured}): ${megabytes(sizeBytes)} and ${megabytes(optimizerBytes)} of optimizer state`,
    problem: null,
  };
}

const megabytes = (bytes: number): string => `${(bytes / 1e6).toFixed(1)} MB`;
