import { queryOptions } from '@tanstack/react-query';
import type { UsageListObject } from '@trainyard/sdk';

import { request } from './request.ts';

export type UsagePart = 'project' | 'key' | 'model' | 'kind' | 'day';

/** Sums of the last days, told apart by these parts. */
export function usageQuery(by: readonly UsagePart[], days: number) {
  return queryOptions({
    queryKey: ['usage', by, days],
    queryFn: ({ signal }) => {
      const now = Math.floor(Date.now() / 1000);
      // Whole days of UTC: what is older than a day is kept by the hour.
      const from = (Math.floor(now / 86_400) - days + 1) * 86_400;
      return request<UsageListObject>('GET', '/preview/usage', { signal, query: { by, from } });
    },
    refetchInterval: 30_000,
  });
}
