import type { BlobLocation } from '../contract/blobs.ts';
import type { StoreLocation } from '../contract/store-location.ts';
import { checkpointFindings } from './checkpoint-findings.ts';
import { blobFindings } from './blob-findings.ts';
import type { Finding } from './finding.ts';
import { orphanFindings } from './orphan-findings.ts';
import type { AskEngine } from './member-findings.ts';

export type { AskEngine, Finding };

export interface ClusterParts {
  readonly database: StoreLocation;
  readonly blobs: BlobLocation;
  /** Release of this program. */
  readonly version: string;
  /** Default: engines are not contacted. */
  readonly askEngine?: AskEngine;
}

/**
 * Checks a database that {@link examineDatabase} passed, the blobs, and the processes that share both, also
 * while services use them. Yields one finding each. Changes nothing but a small object that is written and
 * removed.
 */
export async function* clusterFindings(parts: ClusterParts): AsyncGenerator<Finding> {
  const { database, blobs } = parts;
  if (database.kind === 'sqlite') {
    yield* blobFindings(blobs);
    yield* orphanFindings(database, blobs);
    return yield* checkpointFindings(database);
  }
  // Loads the PostgreSQL client only for such a database.
  const { postgresFindings } = await import('./postgres-findings.ts');
  yield* untilLost(postgresFindings(database.url));
  yield* blobFindings(blobs);
  yield* untilLost(orphanFindings(database, blobs));
  yield* untilLost(checkpointFindings(database));
  const { memberFindings } = await import('./member-findings.ts');
  yield* untilLost(memberFindings(database.url, parts));
}

/** Turns the loss of the database during the checks into one more finding. */
export async function* untilLost(findings: AsyncGenerator<Finding>): AsyncGenerator<Finding> {
  try {
    yield* findings;
  } catch (error) {
    const problem = error instanceof Error ? error.message : String(error);
    yield { name: 'database_lost', subject: 'lost the database during the checks', problem };
  }
}
