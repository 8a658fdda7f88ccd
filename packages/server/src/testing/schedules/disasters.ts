import type { Blobs } from '@trainyard/store';
import type { SchemaConnection } from '@trainyard/store/testing';

import { CheckpointKeeper } from '../../jobs/checkpoints/checkpoint-keeper.ts';
import { DEFAULT_KEEP_POLICY, readKeepPolicy } from '../../jobs/checkpoints/keep-policy.ts';
import { orphanRules, Upkeep } from '../../seams/data/upkeep.ts';
import type { ServiceProcess } from './service-process.ts';
import type { VirtualTime } from './virtual-time.ts';

const DAY_MS = 24 * 3_600_000;
/** Name of the correct rows. */
const CURRENT = 'current_rows';
export const OLDER = 'older_rows';
/** As in services, except for the share: a schedule has few blobs. */
const RULES = orphanRules({ removeOrphans: 'known', orphanDays: 7, binDays: 7, orphanShare: 1 });
/** Rows that expire by age. */
const AGING = `
  select (select count(*) from feed) + (select count(*) from idempotency_records) + (select count(*) from answer_records)
    + (select count(*) from token_traces) + (select count(*) from usage) - (select count(*) from jobs where data_removed_at is not null) as num`;

export interface DisasterParts {
  readonly time: VirtualTime;
  readonly connection: SchemaConnection;
  readonly start: (name: string) => Promise<ServiceProcess>;
  readonly log: (line: string) => void;
  readonly found: (violation: string) => void;
  readonly count: (fault: string) => void;
}

/**
 * Plays faults of the whole database, and of the clock, after all work is done: none of them may cost a blob
 * or a row.
 */
export async function playDisasters(parts: DisasterParts): Promise<void> {
  const { connection } = parts;
  // First, because the others let weeks pass.
  await wrongClock(parts);
  await connection.keepRows(CURRENT);
  await emptiedDatabase(parts);
  await olderDatabase(parts);
}

/** A process whose database has lost all rows must not start; if it starts anyway, it must remove nothing. */
async function emptiedDatabase(parts: DisasterParts): Promise<void> {
  const { connection, start, found, count } = parts;
  const looker = await start('looker');
  const before = await contentOf(looker);
  await connection.putRowsBack(null);
  count('emptied database');
  try {
    const started = await start('emptied');
    found('a process started with an empty database on blobs that have content');
    await keep(started, parts, 2);
    await started.close();
  } catch {
    // The start is refused.
  }
  compare('an empty database', before, await contentOf(looker), found);
  await connection.putRowsBack(CURRENT);
  await looker.close();
}

/**
 * Weeks under an older database must not remove blobs that the newer one names. In the exception of decision
 * 51 no weeks pass: the database knows some blobs only as announced, because the older rows are from the
 * middle of the last job.
 */
async function olderDatabase(parts: DisasterParts): Promise<void> {
  const { connection, start, found, count } = parts;
  const looker = await start('looker');
  const named = await namedKeys(looker);
  const before = (await contentOf(looker)).filter((key) => named.has(key));
  await connection.putRowsBack(OLDER);
  count('older database');
  const rows = await connection.query<{ key: string }>('select key from announced_keys');
  const announced = new Set(rows.map(({ key }) => key));
  const older = await start('older');
  const namedThere = await namedKeys(older);
  const isKnown = before.every((key) => namedThere.has(key) || announced.has(key));
  const isWhole = before.every((key) => namedThere.has(key));
  if (isKnown && !isWhole) count('older by one file');
  await keep(older, parts, isKnown && !isWhole ? 0 : 3);
  await older.close();
  compare('an older database', before, await contentOf(looker), found);
  await connection.putRowsBack(CURRENT);
  await looker.close();
}

async function namedKeys({ process, store }: ServiceProcess): Promise<ReadonlySet<string>> {
  const { directoryKeys, blobKeys } = await process.run(async () => await store.files.listReferenced());
  return new Set([...directoryKeys, ...blobKeys]);
}

/** A start with a clock far ahead, and then one with the right clock. */
async function wrongClock(parts: DisasterParts): Promise<void> {
  const { time, connection, start, found, count } = parts;
  const right = await start('right');
  await keep(right, parts, 0);
  const [before, rows] = [await contentOf(right), await connection.query<{ num: number }>(AGING)];
  await right.close();
  for (const days of [40, -40]) {
    time.step(days * DAY_MS);
    count(`clock ${days > 0 ? 'ahead' : 'put right'}`);
    const process = await start(days > 0 ? 'ahead' : 'behind');
    await keep(process, parts, 0);
    compare('a wrong clock', before, await contentOf(process), found);
    const [now] = await connection.query<{ num: number }>(AGING);
    if (Number(now?.num) < Number(rows[0]?.num))
      found(`a wrong clock removed rows: ${now?.num} of ${rows[0]?.num} are left`);
    await process.close();
  }
}

/**
 * Runs upkeep at once, and after each of `numWeeks` weeks. Removals by age are those of an upkeep that trusts
 * the clock, except with a wrong clock.
 */
async function keep(process: ServiceProcess, { time, log }: DisasterParts, numWeeks: number): Promise<void> {
  const { store, blobs } = process;
  const trustsClock = numWeeks > 0;
  await process.process.run(async () => {
    const policy = readKeepPolicy(DEFAULT_KEEP_POLICY);
    const keeper = new CheckpointKeeper({ store, blobs, policy, binMs: RULES.binMs, retire: () => undefined, log });
    const upkeep = () => new Upkeep({ store, blobs, trajectoryDays: 0, orphans: RULES, keeper, trustsClock, log });
    await upkeep().round();
    for (let week = 0; week < numWeeks; week++) {
      time.skip(8 * DAY_MS);
      await upkeep().round();
    }
  });
}

/** Runs upkeep until orphans are gone for good. */
export async function removeOrphans(process: ServiceProcess, parts: DisasterParts): Promise<void> {
  await keep(process, parts, 2);
}

async function contentOf({ process, blobs }: { process: ServiceProcess['process']; blobs: Blobs }): Promise<string[]> {
  return await process.run(async () => [...(await blobs.listDirectories()), ...(await blobs.listKeys())]);
}

function compare(
  disaster: string,
  before: readonly string[],
  after: readonly string[],
  found: (violation: string) => void,
): void {
  const there = new Set(after);
  const lost = before.filter((key) => !there.has(key));
  if (lost.length > 0)
    found(`${disaster} cost ${lost.length} of ${before.length} blobs: ${lost.slice(0, 3).join(', ')}`);
}
