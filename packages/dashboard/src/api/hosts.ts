import { queryOptions } from '@tanstack/react-query';

import { client } from './client.ts';

const POLL_MS = 2_000;

/** The parts of the service, as they are now. */
export const hostsQuery = queryOptions({
  queryKey: ['hosts'],
  queryFn: ({ signal }) => client.hosts.read({ signal }),
  refetchInterval: POLL_MS,
});
