import type { BlobItem, Blobs } from '../contract/blobs.ts';
import type { StoreClock } from '../parts/clock/clock.ts';
import type { Files } from '../parts/files/files.ts';
import { BLOB_PREFIXES, foreignClaim } from './own-blobs.ts';

const DAY_MS = 24 * 3_600_000;

export interface OrphanRules {
  /** Time without a row that names a blob before it goes to the bin. */
  readonly ageMs: number;
  /** Time that a blob stays in the bin. */
  readonly binMs: number;
  /** Largest share of all blobs, 0–1, that one sweep moves to the bin. With more orphans it moves none. */
  readonly share: number;
  /**
   * `known`: orphans that this database announced or named; `all`: also blobs that it has never known;
   * `none`.
   */
  readonly which: 'known' | 'all' | 'none';
}

export interface OrphanStore {
  readonly clock: Pick<StoreClock, 'now'>;
  readonly files: Omit<Files, 'announce' | 'claimBlobs'>;
}

export interface Orphan extends BlobItem {
  /** Time from which no row names it, as far as sweeps have seen. */
  readonly since: number;
}

export interface BlobCensus {
  readonly numBlobs: number;
  /** Blobs that a row names, or is about to. */
  readonly numNamed: number;
  /** Remains of a crash, or of a removal that failed. */
  readonly orphans: readonly Orphan[];
  /** Blobs that this database has never known: it is an older copy, or belongs to another service. */
  readonly unknown: readonly BlobItem[];
}

interface CensusStore {
  readonly clock: Pick<StoreClock, 'now'>;
  readonly files: Pick<Files, 'listAnnounced' | 'listKnown' | 'listReferenced'>;
}

/** Separates orphans from blobs unknown to the database. Changes nothing. */
export async function takeCensus(store: CensusStore, blobs: Blobs): Promise<BlobCensus> {
  // Keys are announced before their files exist. So the announced keys, read after the files are listed,
  // cover them.
  const items = await listItems(blobs);
  const known = new Map((await store.files.listKnown()).map(({ key, orphanedAt }) => [key, orphanedAt]));
  const { directoryKeys, blobKeys } = await store.files.listReferenced();
  const kept = new Set([...directoryKeys, ...blobKeys, ...(await store.files.listAnnounced())]);
  const unnamed = items.filter(({ key }) => !kept.has(key));
  const now = store.clock.now();
  return {
    numBlobs: items.length,
    numNamed: items.length - unnamed.length,
    orphans: unnamed
      .filter(({ key }) => known.has(key))
      .map((item) => ({ ...item, since: known.get(item.key) ?? now })),
    unknown: unnamed.filter(({ key }) => !known.has(key)),
  };
}

export interface SweepReport extends BlobCensus {
  readonly numBinned: number;
  readonly numRemoved: number;
  /** Reason why orphans that are old enough stay; null if none do. */
  readonly withheld: string | null;
}

/**
 * Moves orphans that are old enough to the bin, and removes those whose time in the bin is over. Blobs in the
 * bin that a row names come back, because an older database has been restored. Blobs that this database has
 * never known stay, unless the rules include them.
 *
 * @param log receives a line per item that is moved or removed
 */
export async function sweepOrphans(
  store: OrphanStore,
  blobs: Blobs,
  rules: OrphanRules,
  log: (line: string) => void,
): Promise<SweepReport> {
  await restoreNamed(store, blobs, log);
  await store.files.learnNamed();
  const census = await takeCensus(store, blobs);
  const claim = await foreignClaim(store, blobs);
  if (claim !== null) return { ...census, numBinned: 0, numRemoved: 0, withheld: `No orphans are removed: ${claim}.` };
  const now = store.clock.now();
  const all = [
    ...census.orphans,
    // Unknown blobs start to age at the first sweep that may remove them.
    ...(rules.which === 'all' ? census.unknown.map((item) => ({ ...item, since: now })) : []),
  ];
  await store.files.setOrphans(all.map(({ key }) => key));
  const due = rules.which === 'none' ? [] : all.filter(({ since }) => now - since >= rules.ageMs);
  const withheld = whyWithheld(due.length, census, rules);
  let numBinned = 0;
  for (const { kind, key, since } of withheld === null ? due : []) {
    // A row may have been added since.
    if ((await store.files.isNamed(key)) || !(await blobs.discard({ kind, key }, now))) continue;
    numBinned += 1;
    log(
      `Moved orphan ${key} to the bin: unreferenced since ${dayOf(since)}. It will be removed after ${days(rules.binMs)}.`,
    );
  }
  const numRemoved = await emptyBin(blobs, now - rules.binMs, log);
  await forgetGone(store, blobs, census);
  if (numBinned > 0) await blobs.removeUnfinished();
  return { ...census, numBinned, numRemoved, withheld };
}

function whyWithheld(numDue: number, { numBlobs, unknown }: BlobCensus, { share, which }: OrphanRules): string | null {
  if (numDue === 0) return null;
  // An older database may have announced a file whose row was added later.
  if (unknown.length > 0 && which === 'known')
    return `${numDue} orphans are kept because some blobs are unknown to this database: it may be an older copy.`;
  if (numDue <= Math.ceil(share * numBlobs)) return null;
  return (
    `${numDue} of ${numBlobs} blobs are orphans, more than the limit of ${share}. None are removed. ` +
    'If this is the right database, allow them once with `--orphan-share 1`.'
  );
}

async function listItems(blobs: Blobs): Promise<BlobItem[]> {
  const items: BlobItem[] = [];
  for (const prefix of BLOB_PREFIXES) {
    for (const key of await blobs.listDirectories(prefix)) items.push({ kind: 'directory', key });
    for (const key of await blobs.listKeys(prefix)) items.push({ kind: 'blob', key });
  }
  return items;
}

async function restoreNamed(store: OrphanStore, blobs: Blobs, log: (line: string) => void): Promise<void> {
  const binned = await blobs.listBin();
  if (binned.length === 0) return;
  const { directoryKeys, blobKeys } = await store.files.listReferenced();
  const named = { directory: new Set(directoryKeys), blob: new Set(blobKeys) };
  for (const item of binned)
    if (named[item.kind].has(item.key) && (await blobs.restore(item)))
      log(`Moved ${item.key} back from the bin: the database references it.`);
}

async function emptyBin(blobs: Blobs, before: number, log: (line: string) => void): Promise<number> {
  const due = (await blobs.listBin()).filter(({ binnedAt }) => binnedAt <= before);
  for (const item of due) {
    await blobs.removeBinned(item);
    log(`Removed ${item.key} from the bin, where it had been since ${dayOf(item.binnedAt)}.`);
  }
  return due.length;
}

/** Forgets known keys that are neither among the blobs nor in the bin. */
async function forgetGone(store: OrphanStore, blobs: Blobs, { orphans, unknown }: BlobCensus): Promise<void> {
  const known = (await store.files.listKnown()).map(({ key }) => key);
  const { directoryKeys, blobKeys } = await store.files.listReferenced();
  const binned = await blobs.listBin();
  const kept = new Set([...directoryKeys, ...blobKeys, ...(await store.files.listAnnounced())]);
  for (const { key } of [...orphans, ...unknown, ...binned]) kept.add(key);
  const gone = known.filter((key) => !kept.has(key));
  if (gone.length > 0) await store.files.forget(gone);
}

const dayOf = (at: number): string => new Date(at).toISOString().slice(0, 10);

const days = (ms: number): string => `${Number((ms / DAY_MS).toFixed(2))} days`;
