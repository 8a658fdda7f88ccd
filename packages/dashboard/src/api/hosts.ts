import { queryOptions } from '@tanstack/react-query';

import { client } from './client.ts';

const POLL_MS = 2_000;

/** Current parts of the service. */
export const hostsQuery = queryOptions({
  queryKey: ['hosts'],
  queryFn: ({ signal }) => client.hosts.read({ signal }),
  refetchInterval: POLL_MS,
});
