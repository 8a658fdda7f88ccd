import type { CheckpointTotals } from '../parts/checkpoints/checkpoint-retention.ts';
import type { StoreLocation } from '../contract/store-location.ts';
import { openTables } from '../parts/tables.ts';
import type { Finding } from './finding.ts';
import { lookAtDatabase } from './look-at-database.ts';

/**
 * Counts the checkpoints of a database and sums their sizes. No finding before the first start, or with an
 * older schema.
 */
export async function* checkpointFindings(database: StoreLocation): AsyncGenerator<Finding> {
  const totals = await lookAtDatabase(database, (queries) => openTables(queries).retention.sum());
  if (totals !== null) yield findingOf(totals);
}

function findingOf({ numCheckpoints, numMarked, numUnmeasured, sizeBytes, optimizerBytes }: CheckpointTotals): Finding {
  const unmeasured = numUnmeasured === 0 ? '' : `, ${numUnmeasured} not measured yet`;
  return {
    name: 'checkpoints',
    subject: `${numCheckpoints} checkpoints (${numMarked} marked${unmeasured}): ${megabytes(sizeBytes)} and ${megabytes(optimizerBytes)} of optimizer state`,
    problem: null,
  };
}

const megabytes = (bytes: number): string => `${(bytes / 1e6).toFixed(1)} MB`;
