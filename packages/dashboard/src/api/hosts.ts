import { queryOptions } from '@tanstack/react-query';
import type { HostsObject } from '@trainyard/sdk';

import { request } from './request.ts';

const POLL_MS = 2_000;

/** The parts of the service, as they are now. */
export const hostsQuery = queryOptions({
  queryKey: ['hosts'],
  queryFn: ({ signal }) => request<HostsObject>('GET', '/preview/hosts', { signal }),
  refetchInterval: POLL_MS,
});
