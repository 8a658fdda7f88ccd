import { infiniteQueryOptions, queryOptions, useQuery } from '@tanstack/react-query';

import type { TrainingJobPageQuery } from '@trainyard/sdk';

import { client } from './client.ts';
import { queryClient } from './query-client.ts';

const PAGE_SIZE = 50;

/** Filter for jobs; omitted fields match all. */
export type JobFilter = Pick<TrainingJobPageQuery, 'status' | 'kind' | 'project'>;

/** Training jobs of one model or of all, newest first. */
export function jobsQuery(modelId: string | null, filter: JobFilter = {}) {
  return infiniteQueryOptions({
    queryKey: ['jobs', 'list', modelId, filter],
    queryFn: ({ signal, pageParam }) =>
      client.trainingJobs.list(
        {
          limit: PAGE_SIZE,
          order: 'desc',
          ...filter,
          ...(modelId === null ? {} : { model_id: modelId }),
          ...pageParam,
        },
        { signal },
      ),
    initialPageParam: {},
    getNextPageParam: (page) => (page.has_more && page.last_id !== null ? { after: page.last_id } : null),
  });
}

export function jobQuery(jobId: string) {
  return queryOptions({
    queryKey: ['jobs', jobId],
    queryFn: ({ signal }) => client.trainingJobs.retrieve(jobId, { signal }),
  });
}

/** The newest job of a model, for its settings. */
export function newestJobQuery(modelId: string) {
  return queryOptions({
    queryKey: ['jobs', 'newest', modelId],
    queryFn: ({ signal }) => client.trainingJobs.list({ model_id: modelId, order: 'desc', limit: 1 }, { signal }),
  });
}

/** Job whose rollouts changed no step of the model, so far or for good. */
export type UnappliedStatus = 'running' | 'failed' | 'cancelled';

const UNAPPLIED: readonly UnappliedStatus[] = ['running', 'failed', 'cancelled'];
const NO_JOBS: ReadonlyMap<string, UnappliedStatus> = new Map();

/** The newest 100 jobs of each such status of a model, by id; empty until they are read. */
export function useUnappliedJobs(modelId: string): ReadonlyMap<string, UnappliedStatus> {
  const { data } = useQuery({
    queryKey: ['jobs', 'unapplied', modelId],
    queryFn: async ({ signal }) => {
      const read = async (status: UnappliedStatus) => {
        const query = { model_id: modelId, status, order: 'desc', limit: 100 } as const;
        return (await client.trainingJobs.list(query, { signal })).data.map(({ id }) => [id, status] as const);
      };
      return new Map((await Promise.all(UNAPPLIED.map(read))).flat());
    },
    enabled: modelId !== '',
  });
  return data ?? NO_JOBS;
}

/** First conversations of a supervised job. */
export function examplesQuery(jobId: string) {
  return queryOptions({
    queryKey: ['jobs', jobId, 'examples'],
    queryFn: ({ signal }) => client.trainingJobs.examples(jobId, {}, { signal }),
    staleTime: Infinity,
  });
}

/** Unfinished jobs, each with its place in the whole queue. */
export const queueQuery = queryOptions({
  queryKey: ['jobs', 'queue'],
  queryFn: ({ signal }) => client.trainingJobs.queue({ signal }),
});

/** Queues a new job with the data and settings of one that failed or was cancelled. @returns its id */
export async function retryJob(jobId: string): Promise<string> {
  const { id } = await client.trainingJobs.retry(jobId);
  await queryClient.invalidateQueries({ queryKey: ['jobs'] });
  await queryClient.invalidateQueries({ queryKey: ['models'] });
  return id;
}

export type JobControl = 'cancel' | 'pause' | 'resume';

/** @throws {ConflictError} if the job has ended */
export async function controlJob(jobId: string, control: JobControl): Promise<void> {
  const job = await client.trainingJobs[control](jobId);
  queryClient.setQueryData(jobQuery(jobId).queryKey, job);
  await queryClient.invalidateQueries({ queryKey: ['jobs'] });
}
