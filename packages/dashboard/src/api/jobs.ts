import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query';
import type { ListPage, TrainingJobObject, TrainingQueueObject } from '@trainyard/sdk';

import { queryClient } from './query-client.ts';
import { request } from './request.ts';

const PAGE_SIZE = 50;

/** Training jobs, the newest first; of one model, or of all. */
export function jobsQuery(modelId: string | null) {
  return infiniteQueryOptions({
    queryKey: ['jobs', 'list', modelId],
    queryFn: ({ signal, pageParam }) =>
      request<ListPage<TrainingJobObject>>('GET', '/preview/training-jobs', {
        signal,
        query: { model_id: modelId, limit: PAGE_SIZE, order: 'desc', after: pageParam },
      }),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => (page.has_more ? page.last_id : null),
  });
}

export function jobQuery(jobId: string) {
  return queryOptions({
    queryKey: ['jobs', jobId],
    queryFn: ({ signal }) =>
      request<TrainingJobObject>('GET', `/preview/training-jobs/${encodeURIComponent(jobId)}`, { signal }),
  });
}

/** Jobs that have not ended, each with its place among those of everybody. */
export const queueQuery = queryOptions({
  queryKey: ['jobs', 'queue'],
  queryFn: ({ signal }) => request<TrainingQueueObject>('GET', '/preview/training-queue', { signal }),
});

export type JobControl = 'cancel' | 'pause' | 'resume';

/** @throws {RequestFailure} 409 for a job that has ended */
export async function controlJob(jobId: string, control: JobControl): Promise<void> {
  const job = await request<TrainingJobObject>(
    'POST',
    `/preview/training-jobs/${encodeURIComponent(jobId)}/${control}`,
  );
  queryClient.setQueryData(jobQuery(jobId).queryKey, job);
  await queryClient.invalidateQueries({ queryKey: ['jobs'] });
}
