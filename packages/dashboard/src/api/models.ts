import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query';
import type { ListPage, MetricListObject, ModelDetailsObject, SeriesListObject } from '@trainyard/sdk';

import { request } from './request.ts';

const PAGE_SIZE = 100;
/** A chart is no wider: neighbours beyond that become one, with the least and the most of them. */
const MAX_POINTS = 500;

function modelPath(modelId: string): string {
  return `/preview/models/${encodeURIComponent(modelId)}`;
}

/** Trained models, the newest first. */
export const modelsQuery = infiniteQueryOptions({
  queryKey: ['models', 'list'],
  queryFn: ({ signal, pageParam }) =>
    request<ListPage<ModelDetailsObject>>('GET', '/preview/models', {
      signal,
      query: { limit: PAGE_SIZE, order: 'desc', after: pageParam },
    }),
  initialPageParam: null as string | null,
  getNextPageParam: (page) => (page.has_more ? page.last_id : null),
});

export function modelQuery(modelId: string) {
  return queryOptions({
    queryKey: ['models', modelId],
    queryFn: ({ signal }) => request<ModelDetailsObject>('GET', modelPath(modelId), { signal }),
  });
}

/** Names of the metrics that a model has, each with its latest value. */
export function metricsQuery(modelId: string) {
  return queryOptions({
    queryKey: ['models', modelId, 'metrics'],
    queryFn: ({ signal }) => request<MetricListObject>('GET', `${modelPath(modelId)}/metrics`, { signal }),
  });
}

export interface SeriesRange {
  /** Points are counted by the steps of the model, or by its gradient steps over all jobs. */
  readonly axis: 'step' | 'gradient_step';
  /** Inclusive places on the axis; null: all. */
  readonly from: number | null;
  readonly to: number | null;
}

const ALL_STEPS: SeriesRange = { axis: 'step', from: null, to: null };

/** @param names at most 64 */
export function seriesQuery(modelId: string, names: readonly string[], range: SeriesRange = ALL_STEPS) {
  return queryOptions({
    queryKey: ['models', modelId, 'series', names, range],
    queryFn: ({ signal }) =>
      request<SeriesListObject>('GET', `${modelPath(modelId)}/series`, {
        signal,
        query: { name: names, axis: range.axis, from: range.from, to: range.to, max_points: MAX_POINTS },
      }),
    enabled: names.length > 0,
  });
}
