import { queryOptions } from '@tanstack/react-query';

import { client } from '../api/client.ts';
import { queryClient } from '../api/query-client.ts';

const POLL_MS = 2_000;

/** Base models, and those of a hub that are being fetched or could not be fetched. */
export const baseModelsQuery = queryOptions({
  queryKey: ['base-models'],
  queryFn: ({ signal }) => client.baseModels.list({ signal }),
  refetchInterval: POLL_MS,
});

/** Fetches a base model from the hub, or retries one that failed. */
export async function fetchBaseModel(id: string): Promise<void> {
  await client.baseModels.fetch(id);
  await queryClient.invalidateQueries({ queryKey: baseModelsQuery.queryKey });
}

export async function cancelBaseModel(id: string): Promise<void> {
  await client.baseModels.cancel(id);
  await queryClient.invalidateQueries({ queryKey: baseModelsQuery.queryKey });
}
