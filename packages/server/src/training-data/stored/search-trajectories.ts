import { setImmediate as nextTurn } from 'node:timers/promises';

import type { WireTrajectoryGroup } from '@trainyard/protocol';
import {
  type Blobs,
  type Page,
  type Store,
  StoreError,
  type TrajectoryQuery,
  type TrajectorySummary,
} from '@trainyard/store';

import { excerptAround } from './spoken-text.ts';
import { readGroupLines } from './stored-group.ts';

/** Rows per query. */
const ROWS_AT_ONCE = 1000;
/** Maximum bytes that one request reads before it returns its progress: a few tenths of a second. */
const MAX_READ_BYTES = 32_000_000;

export interface FoundTrajectory extends TrajectorySummary {
  readonly excerpt: string;
}

export interface FoundPage extends Page<FoundTrajectory> {
  /** Id of the last row searched; null without rows. */
  readonly lastId: string | null;
}

/**
 * Searches the messages of trajectories for a text, ignoring case. Reads the stored data: there is no index,
 * so nothing of removed data stays. Reads at least one job or log, of any size.
 * @param query without `sort`
 */
export async function searchTrajectories(
  parts: { store: Pick<Store, 'trajectories'>; blobs: Blobs; maxReadBytes?: number },
  query: Omit<TrajectoryQuery, 'sort'>,
  text: string,
): Promise<FoundPage> {
  const { store, blobs, maxReadBytes = MAX_READ_BYTES } = parts;
  const { limit = 20 } = query;
  const needle = text.toLowerCase();
  const items: FoundTrajectory[] = [];
  let after = query.after ?? null;
  let numBytes = 0;
  for (;;) {
    const page = await store.trajectories.list({ ...query, after, limit: ROWS_AT_ONCE });
    for (const rows of sets(page.items)) {
      if (numBytes >= maxReadBytes) return { items, hasMore: true, lastId: after };
      const wanted = new Map(rows.map((row) => [placeKey(row.groupIndex, row.trajectoryIndex), row]));
      const isAscending = query.order !== 'desc';
      const missing = limit - items.length;
      const found = await searchSet(rows, wanted, isAscending ? missing : Infinity);
      const inOrder = isAscending ? found : found.toReversed();
      items.push(...inOrder.slice(0, missing));
      const isFull = items.length === limit;
      // Rows after the last of a full page were not searched, or will be searched again.
      after = isFull ? items.at(-1)!.id : rows.at(-1)!.id;
      if (!isFull) continue;
      const hasRest = after !== page.items.at(-1)?.id || page.hasMore;
      return { items, hasMore: hasRest, lastId: after };
    }
    if (!page.hasMore) return { items, hasMore: false, lastId: after };
  }

  async function searchSet(
    rows: readonly TrajectorySummary[],
    wanted: ReadonlyMap<string, TrajectorySummary>,
    max: number,
  ): Promise<FoundTrajectory[]> {
    const found: FoundTrajectory[] = [];
    const key = (await store.trajectories.get(rows[0]!.id))?.blobKey ?? null;
    if (key === null) return found;
    const groups = rows.map(({ groupIndex }) => groupIndex);
    const first = Math.min(...groups);
    const last = Math.max(...groups);
    try {
      for await (const { index, line } of readGroupLines(blobs, key)) {
        if (index > last) break;
        numBytes += line.reduce((sum, piece) => sum + piece.length, 0);
        if (index < first || !mayHold(line, needle)) continue;
        const { trajectories } = JSON.parse(Buffer.concat(line).toString('utf8')) as WireTrajectoryGroup;
        for (const [place, trajectory] of trajectories.entries()) {
          const row = wanted.get(placeKey(index, place));
          const excerpt = row === undefined ? null : excerptAround(trajectory, needle);
          if (row !== undefined && excerpt !== null) found.push({ ...row, excerpt });
        }
        if (found.length >= max) break;
        await nextTurn();
      }
    } catch (error) {
      // Deleted during the read.
      if (!(error instanceof StoreError && error.code === 'store.blob_missing')) throw error;
    }
    return found;
  }
}

/**
 * False if the line cannot contain the text, checked before parsing: as JSON writes it, or inside JSON text,
 * such as the arguments of a call.
 */
function mayHold(line: readonly Buffer[], needle: string): boolean {
  const text = Buffer.concat(line).toString('utf8').toLowerCase();
  return text.includes(JSON.stringify(needle).slice(1, -1).toLowerCase()) || text.includes(needle);
}

/** Groups neighbours from the same job or log. */
function sets(rows: readonly TrajectorySummary[]): TrajectorySummary[][] {
  const parts: TrajectorySummary[][] = [];
  for (const row of rows) {
    const open = parts.at(-1);
    if (open !== undefined && setOf(open[0]!) === setOf(row)) open.push(row);
    else parts.push([row]);
  }
  return parts;
}

function setOf({ jobId, logId }: TrajectorySummary): string | null {
  return jobId ?? logId;
}

function placeKey(group: number, index: number): string {
  return `${group}.${index}`;
}
