import { queryOptions } from '@tanstack/react-query';
import type { UsageGroupObject, UsageQuery } from '@trainyard/sdk';

import { client } from './client.ts';

export type UsageFilter = Omit<UsageQuery, 'from' | 'to'>;

const POLL_MS = 30_000;
const DAY_SECONDS = 86_400;

/** Usage of the last days that matches a filter. */
export function usageQuery(filter: UsageFilter, days: number) {
  return queryOptions({
    queryKey: ['usage', filter, days],
    queryFn: ({ signal }) => client.usage.read({ ...filter, ...spanOf(days) }, { signal }),
    refetchInterval: POLL_MS,
  });
}

/** All groups of the last days, also if there are more than the service returns at once. */
export async function allUsage(filter: UsageFilter, days: number): Promise<UsageGroupObject[]> {
  return await between(spanOf(days));

  async function between({ from, to }: { from: number; to: number }): Promise<UsageGroupObject[]> {
    const { data, has_more: hasMore } = await client.usage.read({ ...filter, from, to });
    const numDays = (to - from) / DAY_SECONDS;
    if (!hasMore) return data;
    if (numDays <= 1)
      throw new Error('One day has more than 10,000 rows of usage: choose a project, a key or a model.');
    const middle = from + Math.floor(numDays / 2) * DAY_SECONDS;
    return [...(await between({ from, to: middle })), ...(await between({ from: middle, to }))];
  }
}

/** Whole days in UTC, the present one included: the service keeps usage older than a day by the hour. */
function spanOf(days: number): { from: number; to: number } {
  const today = Math.floor(client.now() / 1000 / DAY_SECONDS);
  return { from: (today - days + 1) * DAY_SECONDS, to: (today + 1) * DAY_SECONDS };
}
