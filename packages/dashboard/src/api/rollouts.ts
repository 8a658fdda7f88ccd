import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query';
import type { TrajectoryPageQuery } from '@trainyard/sdk';

import { client } from './client.ts';

/** Most items of one page, as the service allows. */
const PAGE_SIZE = 1000;

/** Key of lists that nothing asks for again by itself: all of their pages would come again. */
export const LONG_LISTS = 'rollout-pages';

/** Which rollouts of a model; what is left out lets all through. */
export type RolloutFilter = Omit<TrajectoryPageQuery, 'after' | 'limit'>;

/**
 * Rollouts of a model in pages, without what they say.
 * @param options.isLive asked for again when something happens to the model. Default true; false for long lists, all of whose pages would come again
 */
export function rolloutPagesQuery(modelId: string, filter: RolloutFilter, { limit = PAGE_SIZE, isLive = true } = {}) {
  return infiniteQueryOptions({
    queryKey: [...(isLive ? ['models', modelId] : [LONG_LISTS, modelId]), 'rollouts', filter, limit],
    ...(isLive ? {} : { staleTime: Infinity }),
    // Comparing thousands of rollouts with those of before takes longer than showing them.
    structuralSharing: false,
    queryFn: ({ signal, pageParam }) =>
      client.trajectories.list(modelId, { ...filter, limit, ...pageParam }, { signal }),
    initialPageParam: {},
    getNextPageParam: (page) => (page.has_more && page.last_id !== null ? { after: page.last_id } : null),
  });
}

/** The first page of the rollouts of a model that are so, without what they say. */
export function firstRolloutsQuery(modelId: string, filter: TrajectoryPageQuery) {
  return queryOptions({
    queryKey: ['models', modelId, 'rollouts', 'first', filter],
    queryFn: ({ signal }) => client.trajectories.list(modelId, filter, { signal }),
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
