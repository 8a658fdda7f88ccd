// What goes out and comes in, where it touches several tables. Each runs inside one transaction.
import type { Adapter, ModelExport } from '../contract/records.ts';
import type { ExportOutcome, FinishedExport, NewExport, RemovedAdapters } from '../contract/store.ts';
import type { Tables } from '../tables/tables.ts';

export async function createExport(tables: Tables, input: NewExport, now: number): Promise<ModelExport | null> {
  const checkpoint =
    (await tables.models.get(input.modelId)) && (await tables.checkpoints.get(input.modelId, input.step));
  if (checkpoint === null) return null;
  const created = await tables.exports.insert(input, checkpoint, now);
  if (input.completes !== undefined) await tables.idempotency.complete(input.completes);
  return created;
}

export async function finishExport(
  tables: Tables,
  exportId: string,
  numAttempts: number,
  outcome: ExportOutcome,
  now: number,
): Promise<FinishedExport | null> {
  const finished = await tables.exports.finish(exportId, numAttempts, outcome, now);
  if (finished === null) return null;
  return { export: finished, artifactKeys: await tables.checkpoints.unreferenced([finished.sourceArtifactKey]) };
}

export async function deleteExport(
  tables: Tables,
  exportId: string,
  now: number,
): Promise<{ artifactKeys: string[] } | null> {
  const deleted = await tables.exports.get(exportId);
  if (deleted === null) return null;
  await tables.exports.markDeleted(exportId, now);
  return { artifactKeys: await tables.checkpoints.unreferenced(heldDirectories(deleted)) };
}

/** Directories that the row keeps: its files, and until it ends what it reads. */
export function heldDirectories({ artifactKey, sourceArtifactKey, finishedAt }: ModelExport): (string | null)[] {
  return finishedAt === null ? [sourceArtifactKey] : [artifactKey];
}

export async function commitAdapter(
  tables: Tables,
  adapterId: string,
  content: NonNullable<Adapter['content']>,
  now: number,
): Promise<{ adapter: Adapter; blobKeys: string[] } | null> {
  const upload = (await tables.adapters.get(adapterId))?.upload ?? null;
  if (upload === null) return null;
  return {
    adapter: await tables.adapters.commit(adapterId, content, now),
    blobKeys: [upload.configKey, upload.weightsKey],
  };
}

export async function removeAdapters(
  tables: Tables,
  adapters: readonly Adapter[],
  now: number,
): Promise<RemovedAdapters> {
  for (const { id } of adapters) await tables.adapters.markDeleted(id, now);
  return {
    artifactKeys: await tables.checkpoints.unreferenced(adapters.map(({ content }) => content?.artifactKey ?? null)),
    blobKeys: adapters.flatMap(({ upload }) => (upload === null ? [] : [upload.configKey, upload.weightsKey])),
  };
}
