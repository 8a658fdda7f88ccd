import { queryOptions } from '@tanstack/react-query';
import type { ListPage, TrajectoryContent, TrajectoryObject } from '@trainyard/sdk';

import { request } from './request.ts';

/** Which trajectories of a model; what is left out lets all through. */
export interface TrajectoryFilter {
  readonly split?: string;
  readonly step?: number;
  readonly sort?: 'position' | 'reward';
  readonly order?: 'asc' | 'desc';
  readonly limit?: number;
}

/** The first page of them, without what they say. */
export function trajectoriesQuery(modelId: string, filter: TrajectoryFilter) {
  return queryOptions({
    queryKey: ['models', modelId, 'trajectories', filter],
    queryFn: ({ signal }) =>
      request<ListPage<TrajectoryObject>>('GET', `/preview/models/${encodeURIComponent(modelId)}/trajectories`, {
        signal,
        query: { ...filter },
      }),
  });
}

/** One with what it says. */
export function trajectoryQuery(trajectoryId: string) {
  return queryOptions({
    queryKey: ['trajectories', trajectoryId],
    queryFn: ({ signal }) =>
      request<TrajectoryContent>('GET', `/preview/trajectories/${encodeURIComponent(trajectoryId)}`, { signal }),
  });
}
