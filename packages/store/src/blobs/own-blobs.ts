import { randomUUID } from 'node:crypto';
import type { BlobLocation, Blobs } from '../contract/blobs.ts';
import { StoreError } from '../contract/errors.ts';
import type { StoreClock } from '../parts/clock/clock.ts';
import type { Files } from '../parts/files/files.ts';

/** Folder of small files, one per database that owns these blobs; there should be one. */
const PLACES = 'places/';

export const placeKey = (id: string): string => `${PLACES}${id}`;

/** Prefixes of the blobs that services write. */
export const BLOB_PREFIXES = [
  'checkpoints/',
  'groups/',
  'logs/',
  'sft/',
  'artifacts/',
  'exports/',
  'adapters/',
  'uploads/',
  'snapshots/',
] as const;

/** Remedies for a start that would adopt blobs whose rows are gone. */
const REMEDIES =
  'Restore a backup with `trainyard restore FOLDER`, or start with `--adopt-blobs` to rebuild models and checkpoints from the blobs.';

export const placeOf = (location: BlobLocation): string => (location.kind === 'folder' ? location.root : location.url);

/** True if a service has written or claimed anything there. */
export async function hasContent(blobs: Blobs): Promise<boolean> {
  for (const prefix of [PLACES, ...BLOB_PREFIXES]) if ((await blobs.listKeys(prefix)).length > 0) return true;
  for (const prefix of BLOB_PREFIXES) if ((await blobs.listDirectories(prefix)).length > 0) return true;
  return false;
}

/** @throws {StoreError} `store.unavailable` if the blobs have content: their database is gone */
export async function refuseLostDatabase(database: string, state: 'missing' | 'empty', blobs: Blobs): Promise<void> {
  if (!(await hasContent(blobs))) return;
  throw new StoreError(
    'store.unavailable',
    `The database ${database} is ${state}, but ${placeOf(blobs.location)} contains blobs of a service. ${REMEDIES}`,
  );
}

interface Marks {
  /** Claim of this database; null if it has none. */
  readonly id: string | null;
  readonly isMarked: boolean;
  readonly others: readonly string[];
}

/**
 * Reads the marks first: another process of this database may claim them now, and writes its row before its
 * mark.
 */
async function marksOf(store: { files: Pick<Files, 'blobsId'> }, blobs: Blobs): Promise<Marks> {
  const places = await blobs.listKeys(PLACES);
  const id = await store.files.blobsId();
  const own = id === null ? null : placeKey(id);
  return { id, isMarked: own !== null && places.includes(own), others: places.filter((key) => key !== own) };
}

/**
 * Reason why this database may not remove blobs now, for example a claim by another service since the start;
 * null if it may.
 */
export async function foreignClaim(store: { files: Pick<Files, 'blobsId'> }, blobs: Blobs): Promise<string | null> {
  const { id, isMarked, others } = await marksOf(store, blobs);
  if (others.length > 0) return `another service has claimed the blobs (${others.join(', ')})`;
  return isMarked
    ? null
    : `the blobs have no mark of this database (${id === null ? 'the database has no id' : placeKey(id)})`;
}

interface Claimant {
  readonly files: Pick<Files, 'blobsId' | 'claimBlobs' | 'listReferenced'>;
}

/**
 * Checks that these blobs belong to this database and to no other. Services that share a database share its
 * blobs; two databases never do, because each would take the other's blobs for orphans. Claims blobs without
 * content; the row is written before the mark.
 *
 * @param options.adopts claims existing content; the caller then makes rows for it and calls
 *   `dropOtherMarks`. Default false
 * @throws {StoreError} `store.unavailable`, with the remedy
 */
export async function checkOwnBlobs(
  store: Claimant,
  blobs: Blobs,
  { adopts = false }: { readonly adopts?: boolean } = {},
): Promise<void> {
  const marks = await marksOf(store, blobs);
  if (marks.isMarked && (marks.others.length === 0 || adopts)) return;
  const refusal = adopts ? null : await refusalOf(marks, store, blobs);
  if (refusal !== null) {
    // Another process of this database may have claimed the blobs since the marks were read.
    const { isMarked, others } = await marksOf(store, blobs);
    if (isMarked && others.length === 0) return;
    throw refusal;
  }
  const id = await store.files.claimBlobs(marks.id ?? randomUUID());
  await blobs.putJson(placeKey(id), {});
  // If two databases claim empty blobs at the same moment, each sees the other's mark.
  const { others: rivals } = await marksOf(store, blobs);
  if (adopts || rivals.length === 0) return;
  await blobs.remove(placeKey(id));
  throw belongsToAnother(placeOf(blobs.location), rivals);
}

/** Reason why this database may not claim the blobs; null: they have no content, or the database names some. */
async function refusalOf({ id, others }: Marks, store: Claimant, blobs: Blobs): Promise<StoreError | null> {
  const place = placeOf(blobs.location);
  if (others.length > 0) return belongsToAnother(place, others);
  if (id !== null && !(await isFirstUse(store, blobs)))
    return new StoreError(
      'store.unavailable',
      `The blobs in ${place} do not belong to this database (${placeKey(id)} is missing). ` +
        'Use the bucket or data folder of this database, or start with `--adopt-blobs`.',
    );
  if (id === null && !(await namesContent(store, blobs)))
    return new StoreError(
      'store.unavailable',
      `The database is empty, but ${place} contains blobs of a service. ${REMEDIES}`,
    );
  return null;
}

/** Removes the marks of other databases after an adoption. */
export async function dropOtherMarks(
  store: { files: Pick<Files, 'blobsId'>; clock: Pick<StoreClock, 'now'> },
  blobs: Blobs,
): Promise<void> {
  const { others } = await marksOf(store, blobs);
  for (const key of others) await blobs.discard({ kind: 'blob', key }, store.clock.now());
}

/** True after a crash between claim and mark: nothing was written by then. */
async function isFirstUse(store: Claimant, blobs: Blobs): Promise<boolean> {
  const { directoryKeys, blobKeys } = await store.files.listReferenced();
  return directoryKeys.length + blobKeys.length === 0 && !(await hasContent(blobs));
}

/** True for blobs older than claims: the database names some of them, or there are none. */
async function namesContent(store: Claimant, blobs: Blobs): Promise<boolean> {
  const { directoryKeys, blobKeys } = await store.files.listReferenced();
  for (const key of blobKeys) if (await blobs.has(key)) return true;
  const directories = new Set(await blobs.listDirectories());
  return directoryKeys.some((key) => directories.has(key)) || !(await hasContent(blobs));
}

function belongsToAnother(place: string, marks: readonly string[]): StoreError {
  return new StoreError(
    'store.unavailable',
    `${place} belongs to another service (${marks.join(', ')}). ` +
      'Use a separate bucket, prefix or data folder, restore the matching database, or start with `--adopt-blobs` to take over the blobs.',
  );
}
