import { queryOptions } from '@tanstack/react-query';

import { client } from './client.ts';

export type UsagePart = 'project' | 'key' | 'model' | 'kind' | 'day';

const POLL_MS = 30_000;

/** Usage of the last days, grouped by parts. */
export function usageQuery(by: readonly UsagePart[], days: number) {
  return queryOptions({
    queryKey: ['usage', by, days],
    queryFn: ({ signal }) => {
      const today = Math.floor(client.now() / 86_400_000);
      // Whole days in UTC: the service keeps usage older than a day by the hour.
      return client.usage.read({ by: [...by], from: (today - days + 1) * 86_400 }, { signal });
    },
    refetchInterval: POLL_MS,
  });
}
