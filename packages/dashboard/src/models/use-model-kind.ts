import { useInfiniteQuery, useQuery } from '@tanstack/react-query';

import { jobsQuery } from '../api/jobs.ts';
import { metricsQuery } from '../api/models.ts';
import { kindOf, type ModelKind } from './model-kind.ts';

/** Kind of a model by its metrics, or by its newest job before there are any. */
export function useModelKind(modelId: string): ModelKind {
  const { data: metrics } = useQuery(metricsQuery(modelId));
  const { data: jobs } = useInfiniteQuery(jobsQuery(modelId));
  if (metrics === undefined || jobs === undefined) return null;
  const newest = jobs.pages[0]?.data[0]?.kind ?? null;
  return kindOf(
    metrics.data.map(({ name }) => name),
    newest,
  );
}
