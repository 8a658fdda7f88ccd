// What goes out and comes in, where it touches several tables. Each runs inside one transaction.
import type { Adapter, ModelExport } from '../records.ts';
import type { ExportOutcome, FinishedExport, NewExport, RemovedAdapters } from '../store.ts';
import type { Tables } from './tables.ts';

export function createExport(tables: Tables, input: NewExport, now: number): ModelExport | null {
  const checkpoint = tables.models.get(input.modelId) && tables.checkpoints.get(input.modelId, input.step);
  if (checkpoint === null) return null;
  const created = tables.exports.insert(input, checkpoint, now);
  if (input.completes !== undefined) tables.idempotency.complete(input.completes);
  return created;
}

export function finishExport(
  tables: Tables,
  exportId: string,
  numAttempts: number,
  outcome: ExportOutcome,
  now: number,
): FinishedExport | null {
  const finished = tables.exports.finish(exportId, numAttempts, outcome, now);
  if (finished === null) return null;
  return { export: finished, artifactKeys: tables.checkpoints.unreferenced([finished.sourceArtifactKey]) };
}

export function deleteExport(tables: Tables, exportId: string, now: number): { artifactKeys: string[] } | null {
  const deleted = tables.exports.get(exportId);
  if (deleted === null) return null;
  tables.exports.markDeleted(exportId, now);
  return { artifactKeys: tables.checkpoints.unreferenced(heldDirectories(deleted)) };
}

/** Directories that the row keeps: its files, and until it ends what it reads. */
export function heldDirectories({ artifactKey, sourceArtifactKey, finishedAt }: ModelExport): (string | null)[] {
  return finishedAt === null ? [sourceArtifactKey] : [artifactKey];
}

export function commitAdapter(
  tables: Tables,
  adapterId: string,
  content: NonNullable<Adapter['content']>,
  now: number,
): { adapter: Adapter; blobKeys: string[] } | null {
  const upload = tables.adapters.get(adapterId)?.upload ?? null;
  if (upload === null) return null;
  return { adapter: tables.adapters.commit(adapterId, content, now), blobKeys: [upload.configKey, upload.weightsKey] };
}

export function removeAdapters(tables: Tables, adapters: readonly Adapter[], now: number): RemovedAdapters {
  for (const { id } of adapters) tables.adapters.markDeleted(id, now);
  return {
    artifactKeys: tables.checkpoints.unreferenced(adapters.map(({ content }) => content?.artifactKey ?? null)),
    blobKeys: adapters.flatMap(({ upload }) => (upload === null ? [] : [upload.configKey, upload.weightsKey])),
  };
}
