import { existsSync, statSync } from 'node:fs';

import { openBlobs } from '../blobs/open-blobs.ts';
import { type BlobCensus, takeCensus } from '../blobs/orphans.ts';
import { foreignClaim, hasContent, placeOf, refuseLostDatabase } from '../blobs/own-blobs.ts';
import type { BlobItem, BlobLocation, Blobs } from '../contract/blobs.ts';
import type { Queries } from '../contract/sql.ts';
import type { StoreLocation } from '../contract/store-location.ts';
import { NEWEST_VERSION } from '../migrations/index.ts';
import { openTables } from '../parts/tables.ts';
import type { Finding } from './finding.ts';
import { lookAtFile } from './look-at-file.ts';

/** Maximum number of keys in a line. */
const LISTED = 20;

/**
 * Compares the blobs with the rows of the database: orphans, blobs that the database has never known, and
 * blobs of another service. Changes nothing.
 */
export async function* orphanFindings(
  database: StoreLocation,
  location: BlobLocation,
  environment: Readonly<Record<string, string | undefined>> = process.env,
): AsyncGenerator<Finding> {
  // Before the first start there is no folder, and the check creates none.
  if (location.kind === 'folder' && !existsSync(location.root)) return;
  const subject = `blobs in ${placeOf(location)} against the database`;
  try {
    const blobs = await openBlobs(location, environment);
    try {
      yield await lookAt(database, blobs, subject);
    } finally {
      await blobs.close();
    }
  } catch (error) {
    yield { name: 'orphans', subject, problem: error instanceof Error ? error.message : String(error) };
  }
}

async function lookAt(database: StoreLocation, blobs: Blobs, subject: string): Promise<Finding> {
  const read = async (queries: Queries, now = Date.now()) => await compare(queries, now, blobs, subject);
  if (database.kind === 'postgres') {
    const { PostgresSql } = await import('../drivers/postgres/postgres-sql.ts');
    if ((await PostgresSql.versionOf(database.url)) !== NEWEST_VERSION) return await withoutRows(blobs, subject);
    return await PostgresSql.look(database.url, read);
  }
  const state = !existsSync(database.path) ? 'missing' : statSync(database.path).size === 0 ? 'empty' : null;
  if (state !== null) await refuseLostDatabase(database.path, state, blobs);
  return state === null ? await lookAtFile(database.path, read) : await withoutRows(blobs, subject);
}

/** Finding for a database without a schema, or with an older one, whose rows are not read. */
async function withoutRows(blobs: Blobs, subject: string): Promise<Finding> {
  const note = (await hasContent(blobs)) ? ': not compared until the next start updates the schema' : '';
  return { name: 'orphans', subject: `${subject}${note}`, problem: null };
}

async function compare(queries: Queries, now: number, blobs: Blobs, subject: string): Promise<Finding> {
  const { announcedKeys, blobPlaces, checkpoints, logs } = openTables(queries);
  const store = {
    clock: { now: () => now },
    files: {
      blobsId: async () => await blobPlaces.id(),
      listAnnounced: async () => await announcedKeys.listProtected(now),
      listKnown: async () => await announcedKeys.listKnown(),
      listReferenced: async () => ({
        directoryKeys: await checkpoints.listDirectoryKeys(),
        blobKeys: await logs.listBlobKeys(),
      }),
    },
  };
  const claim = (await hasContent(blobs)) ? await foreignClaim(store, blobs) : null;
  if (claim !== null) {
    const problem = `${claim}, so a service on this database does not start. Use the bucket or data folder of this database, or start with \`--adopt-blobs\``;
    return { name: 'orphans', subject, problem };
  }
  const census = await takeCensus(store, blobs);
  const numBinned = (await blobs.listBin()).length;
  return { name: 'orphans', subject: `${subject}: ${countsOf(census, numBinned)}`, problem: unknownProblem(census) };
}

function countsOf({ numBlobs, numNamed, orphans }: BlobCensus, numBinned: number): string {
  const parts = [`${numBlobs} blobs, ${numNamed} referenced`];
  if (orphans.length > 0) parts.push(`${orphans.length} orphans (${listOf(orphans)})`);
  if (numBinned > 0) parts.push(`${numBinned} in the bin`);
  return parts.join(', ');
}

function unknownProblem({ unknown }: BlobCensus): string | null {
  if (unknown.length === 0) return null;
  return (
    `${unknown.length} blobs are unknown to this database and are kept (${listOf(unknown)}). If the database was restored from a backup, start with \`--adopt-blobs\` ` +
    'to recover later checkpoints. If the blobs are leftovers, remove them with `--remove-orphans all`'
  );
}

function listOf(items: readonly BlobItem[]): string {
  const keys = items.slice(0, LISTED).map(({ key }) => key);
  return keys.join(', ') + (items.length > LISTED ? ` and ${items.length - LISTED} more` : '');
}
