import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query';
import type { CheckpointPageQuery, ExportObject } from '@trainyard/sdk';

import { client } from './client.ts';
import { queryClient } from './query-client.ts';

const PAGE_SIZE = 100;

/** Filter for checkpoints; omitted fields match all that exist. */
export type CheckpointFilter = Pick<CheckpointPageQuery, 'removed' | 'min_step' | 'max_step'>;

/** Checkpoints of a model, newest first. */
export function checkpointsQuery(modelId: string, filter: CheckpointFilter = {}) {
  return infiniteQueryOptions({
    queryKey: ['models', modelId, 'checkpoints', filter],
    queryFn: ({ signal, pageParam }) =>
      client.checkpoints.list(modelId, { limit: PAGE_SIZE, order: 'desc', ...filter, ...pageParam }, { signal }),
    initialPageParam: {},
    getNextPageParam: (page) => (page.has_more && page.last_id !== null ? { after: page.last_id } : null),
  });
}

export async function deleteCheckpoint(modelId: string, step: number): Promise<void> {
  await client.checkpoints.delete(modelId, [step]);
  await queryClient.invalidateQueries({ queryKey: ['models', modelId] });
}

/** Restores a checkpoint that the retention policy removed, and keeps it from now on. */
export async function restoreCheckpoint(modelId: string, step: number): Promise<void> {
  await client.checkpoints.keep(modelId, [step]);
  await queryClient.invalidateQueries({ queryKey: ['models', modelId] });
}

/** Interval for polling unfinished exports, which have no events. */
const EXPORT_POLL_MS = 1_500;

/** Exports of a model, newest first. */
export function exportsQuery(modelId: string) {
  return queryOptions({
    queryKey: ['models', modelId, 'exports'],
    queryFn: ({ signal }) => client.exports.list(modelId, { limit: 50, order: 'desc' }, { signal }),
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
  await client.exports.create(modelId, { step, format });
  await queryClient.invalidateQueries({ queryKey: exportsQuery(modelId).queryKey });
}

export async function deleteExport(modelId: string, exportId: string): Promise<void> {
  await client.exports.delete(modelId, exportId);
  await queryClient.invalidateQueries({ queryKey: exportsQuery(modelId).queryKey });
}

/** Download URL of an export's file. The browser writes the file to disk, as it may have gigabytes. */
export function exportFileUrl({ id, model_id: modelId }: ExportObject, name: string): string {
  const [model, one, file] = [modelId, id, name].map(encodeURIComponent);
  return `${client.baseUrl}/preview/models/${model}/exports/${one}/files/${file}`;
}
