import { queryOptions } from '@tanstack/react-query';
import type { TrajectoryPageQuery } from '@trainyard/sdk';

import { client } from './client.ts';

/** The first page of the trajectories of a model that are so, without what they say. */
export function trajectoriesQuery(modelId: string, filter: TrajectoryPageQuery) {
  return queryOptions({
    queryKey: ['models', modelId, 'trajectories', filter],
    queryFn: ({ signal }) => client.trajectories.list(modelId, filter, { signal }),
  });
}

/** One with what it says. */
export function trajectoryQuery(trajectoryId: string) {
  return queryOptions({
    queryKey: ['trajectories', trajectoryId],
    queryFn: ({ signal }) => client.trajectories.retrieve(trajectoryId, { signal }),
  });
}
