import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query';

import type { UpdateModelRequest } from '@trainyard/sdk';

import { client } from './client.ts';
import { queryClient } from './query-client.ts';

const PAGE_SIZE = 100;
/** Maximum points per chart. Neighbours are merged into one point that keeps their minimum and maximum. */
const MAX_POINTS = 500;

/** Trained models, newest first, archived ones too. */
export const modelsQuery = infiniteQueryOptions({
  queryKey: ['models', 'list'],
  queryFn: ({ signal, pageParam }) =>
    client.models.list({ limit: PAGE_SIZE, order: 'desc', archived: 'included', ...pageParam }, { signal }),
  initialPageParam: {},
  getNextPageParam: (page) => (page.has_more && page.last_id !== null ? { after: page.last_id } : null),
});

/** Points of a line without an axis. */
const SPARK_POINTS = 40;

export function modelQuery(modelId: string) {
  return queryOptions({
    queryKey: ['models', modelId],
    queryFn: ({ signal }) => client.models.retrieve(modelId, { signal }),
  });
}

/** Changes tags, notes or archive, up to the first failure, and reads the list once. @throws {TrainyardApiError} */
export async function labelModels(modelIds: readonly string[], change: UpdateModelRequest): Promise<void> {
  try {
    for (const id of modelIds)
      queryClient.setQueryData(modelQuery(id).queryKey, await client.models.update(id, change));
  } finally {
    await queryClient.invalidateQueries({ queryKey: modelsQuery.queryKey });
    await queryClient.invalidateQueries({ queryKey: ['models', 'served'] });
  }
}

/** Deletes models, up to the first failure, and reads the list once. @throws {TrainyardApiError} */
export async function deleteModels(modelIds: readonly string[]): Promise<void> {
  try {
    for (const id of modelIds) {
      await client.models.delete(id);
      queryClient.removeQueries({ queryKey: ['models', id] });
    }
  } finally {
    await queryClient.invalidateQueries({ queryKey: modelsQuery.queryKey });
  }
}

/** Metric names of a model, each with its latest value. */
export function metricsQuery(modelId: string) {
  return queryOptions({
    queryKey: ['models', modelId, 'metrics'],
    queryFn: ({ signal }) => client.models.metrics(modelId, { signal }),
  });
}

export interface SeriesRange {
  /** Steps of the model, or gradient steps over all its jobs. */
  readonly axis: 'step' | 'gradient_step';
  /** Inclusive bound on the axis; null for none. */
  readonly from: number | null;
  readonly to: number | null;
}

const ALL_STEPS: SeriesRange = { axis: 'step', from: null, to: null };

/** @param names at most 64 */
export function seriesQuery(modelId: string, names: readonly string[], range: SeriesRange = ALL_STEPS) {
  const { axis, from, to } = range;
  return queryOptions({
    queryKey: ['models', modelId, 'series', names, range],
    queryFn: ({ signal }) =>
      client.models.series(
        modelId,
        {
          name: names,
          axis,
          max_points: MAX_POINTS,
          ...(from === null ? {} : { from }),
          ...(to === null ? {} : { to }),
        },
        { signal },
      ),
    enabled: names.length > 0,
  });
}

/** Few points of one metric, for a line without an axis. */
export function sparkQuery(modelId: string, name: string, axis: SeriesRange['axis']) {
  return queryOptions({
    queryKey: ['models', modelId, 'spark', name],
    queryFn: ({ signal }) => client.models.series(modelId, { name, axis, max_points: SPARK_POINTS }, { signal }),
    staleTime: 30_000,
  });
}
