import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query';
import type { TrajectoryObject, TrajectoryPageQuery } from '@trainyard/sdk';

import { client } from './client.ts';

/** Maximum page size of the service. */
const PAGE_SIZE = 1000;

/** Key prefix of lists that are not refetched automatically, because all of their pages would be loaded again. */
export const LONG_LISTS = 'rollout-pages';

/** Filter for the rollouts of a model; omitted fields match all. */
export type RolloutFilter = Omit<TrajectoryPageQuery, 'after' | 'limit'>;

/**
 * Pages of a model's rollouts, without their messages.
 *
 * @param options.isLive refetched on events of the model. Default true; false for long lists, because all
 * pages would be loaded again
 */
export function rolloutPagesQuery(modelId: string, filter: RolloutFilter, { limit = PAGE_SIZE, isLive = true } = {}) {
  return infiniteQueryOptions({
    queryKey: [...(isLive ? ['models', modelId] : [LONG_LISTS, modelId]), 'rollouts', filter, limit],
    ...(isLive ? {} : { staleTime: Infinity }),
    // Comparing thousands of rollouts with the previous ones takes longer than showing them.
    structuralSharing: false,
    queryFn: ({ signal, pageParam }) =>
      client.trajectories.list(modelId, { ...filter, limit, ...pageParam }, { signal }),
    initialPageParam: {},
    getNextPageParam: (page) => (page.has_more && page.last_id !== null ? { after: page.last_id } : null),
  });
}

/** Pages of a table; a search reads less at a time. */
const TABLE_PAGE_SIZE = 500;
const SEARCH_PAGE_SIZE = 100;

/** Pages of a table of rollouts: not refetched while it is open, so that its rows keep their places. */
export function rolloutTableQuery(modelId: string, filter: RolloutFilter) {
  const limit = filter.text === undefined ? TABLE_PAGE_SIZE : SEARCH_PAGE_SIZE;
  return rolloutPagesQuery(modelId, filter, { limit, isLive: false });
}

/** Rollouts of the group of one, in their order. */
export function groupQuery({ model_id: modelId, job_id: job, log_id: log, group }: TrajectoryObject) {
  const filter = { order: 'asc' as const, group, ...(job === null ? { log_id: log ?? '' } : { job_id: job }) };
  return rolloutTableQuery(modelId, filter);
}

/** First page of the rollouts that match a filter, without their messages. */
export function firstRolloutsQuery(modelId: string, filter: TrajectoryPageQuery) {
  return queryOptions({
    queryKey: ['models', modelId, 'rollouts', 'first', filter],
    queryFn: ({ signal }) => client.trajectories.list(modelId, filter, { signal }),
  });
}

/** One rollout with its messages. */
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
