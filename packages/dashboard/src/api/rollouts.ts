import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query';
import type { TrajectoryPageQuery } from '@trainyard/sdk';

import { client } from './client.ts';

/** Most items of one page, as the service allows. */
const PAGE_SIZE = 1000;

/** Which rollouts of a model; what is left out lets all through. */
export type RolloutFilter = Omit<TrajectoryPageQuery, 'after' | 'limit'>;

/** Rollouts of a model in pages, without what they say. */
export function rolloutPagesQuery(modelId: string, filter: RolloutFilter, limit: number = PAGE_SIZE) {
  return infiniteQueryOptions({
    queryKey: ['models', modelId, 'rollouts', filter, limit],
    queryFn: ({ signal, pageParam }) =>
      client.trajectories.list(modelId, { ...filter, limit, ...pageParam }, { signal }),
    initialPageParam: {},
    getNextPageParam: (page) => (page.has_more && page.last_id !== null ? { after: page.last_id } : null),
  });
}

/** One rollout with what it says. */
export function rolloutQuery(rolloutId: string) {
  return queryOptions({
    queryKey: ['rollouts', rolloutId],
    queryFn: ({ signal }) => client.trajectories.retrieve(rolloutId, { signal }),
    staleTime: 60_000,
  });
}

/** One rollout with its tokens. */
export function rolloutTokensQuery(rolloutId: string) {
  return queryOptions({
    queryKey: ['rollouts', rolloutId, 'tokens'],
    queryFn: ({ signal }) => client.trajectories.tokens(rolloutId, { signal }),
    staleTime: 60_000,
  });
}
