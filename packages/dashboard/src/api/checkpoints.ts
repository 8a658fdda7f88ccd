import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query';
import type { CheckpointObject, ExportObject, ListPage } from '@trainyard/sdk';

import { queryClient } from './query-client.ts';
import { request } from './request.ts';

const PAGE_SIZE = 100;

function path(modelId: string, part: string): string {
  return `/preview/models/${encodeURIComponent(modelId)}/${part}`;
}

/** Checkpoints of a model, the latest first. */
export function checkpointsQuery(modelId: string) {
  return infiniteQueryOptions({
    queryKey: ['models', modelId, 'checkpoints'],
    queryFn: ({ signal, pageParam }) =>
      request<ListPage<CheckpointObject>>('GET', path(modelId, 'checkpoints'), {
        signal,
        query: { limit: PAGE_SIZE, order: 'desc', after: pageParam },
      }),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => (page.has_more ? page.last_id : null),
  });
}

export async function deleteCheckpoint(modelId: string, step: number): Promise<void> {
  await request('DELETE', path(modelId, 'checkpoints'), { body: { steps: [step] } });
  await queryClient.invalidateQueries({ queryKey: ['models', modelId] });
}

/** How often exports that have not ended are asked for: they have no events. */
const EXPORT_POLL_MS = 1_500;

/** Exports of a model, the newest first. */
export function exportsQuery(modelId: string) {
  return queryOptions({
    queryKey: ['models', modelId, 'exports'],
    queryFn: ({ signal }) =>
      request<ListPage<ExportObject>>('GET', path(modelId, 'exports'), { signal, query: { limit: 50, order: 'desc' } }),
    refetchInterval: ({ state: { data } }) =>
      data?.data.some(({ status }) => status === 'queued' || status === 'running') === true ? EXPORT_POLL_MS : false,
  });
}

export const EXPORT_FORMATS: readonly { readonly format: ExportObject['format']; readonly text: string }[] = [
  { format: 'peft', text: 'PEFT adapter, for Python' },
  { format: 'gguf-adapter', text: 'GGUF adapter, for llama.cpp' },
  { format: 'merged-gguf', text: 'Whole model as GGUF' },
];

export async function exportCheckpoint(modelId: string, step: number, format: ExportObject['format']): Promise<void> {
  await request('POST', path(modelId, 'exports'), { body: { step, format } });
  await queryClient.invalidateQueries({ queryKey: exportsQuery(modelId).queryKey });
}

export async function deleteExport(modelId: string, exportId: string): Promise<void> {
  await request('DELETE', path(modelId, `exports/${encodeURIComponent(exportId)}`));
  await queryClient.invalidateQueries({ queryKey: exportsQuery(modelId).queryKey });
}

/** Where a browser downloads a file of an export from. */
export function exportFileUrl({ id, model_id: modelId }: ExportObject, name: string): string {
  return `/v1${path(modelId, `exports/${encodeURIComponent(id)}/files/${encodeURIComponent(name)}`)}`;
}
