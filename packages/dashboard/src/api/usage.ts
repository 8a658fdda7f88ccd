import { queryOptions } from '@tanstack/react-query';

import { client } from './client.ts';

export type UsagePart = 'project' | 'key' | 'model' | 'kind' | 'day';

const POLL_MS = 30_000;

/** Sums of the last days, told apart by one part. */
export function usageQuery(by: UsagePart, days: number) {
  return queryOptions({
    queryKey: ['usage', by, days],
    queryFn: ({ signal }) => {
      const today = Math.floor(client.now() / 86_400_000);
      // Whole days of UTC: what is older than a day is kept by the hour.
      return client.usage.read({ by, from: (today - days + 1) * 86_400 }, { signal });
    },
    refetchInterval: POLL_MS,
  });
}
