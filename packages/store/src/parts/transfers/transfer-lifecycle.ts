// Changes of exports and imports that touch several tables. Each runs inside one transaction.
import { randomUUID } from 'node:crypto';
import type { ImportJob, JobOrigin } from '../jobs/jobs.ts';
import { cancelJob, endSucceeded, type HeldJob, insertJob, refuseWhenFull } from '../jobs/job-lifecycle.ts';
import type { Tables } from '../tables.ts';
import type { Adapter, CommittedAdapter, RemovedAdapters } from './adapters.ts';
import type { ExportOutcome, FinishedExport, ModelExport, NewExport } from './exports.ts';

export async function createExport(tables: Tables, input: NewExport, now: number): Promise<ModelExport | null> {
  const { id = randomUUID(), modelId, format, dtype, maxLive, origin } = input;
  const model = await tables.models.get(modelId);
  const checkpoint = model === null ? null : await tables.checkpoints.get(modelId, input.step);
  if (model === null || checkpoint === null) return null;
  await refuseWhenFull(tables, ['export'], modelId, maxLive);
  const { entityId, baseModel } = model;
  const { step, directoryKey, digest } = checkpoint;
  const job = { id, entityId, modelId, turn: id, kind: 'export', baseModel, config: {}, dataKey: null } as const;
  const start = { step, directoryKey, digest };
  await insertJob(tables, { ...job, start, ...(origin && { origin }) }, now);
  const created = await tables.exports.insert({ id, modelId, format, dtype });
  return created;
}

/** @throws {StoreError} `store.lease_lost` */
export async function finishExport(
  tables: Tables,
  { jobId: exportId, fencingToken }: HeldJob,
  outcome: ExportOutcome,
  now: number,
): Promise<FinishedExport> {
  const held = await tables.jobs.held(exportId, fencingToken);
  await tables.exports.setFiles(exportId, outcome);
  const { directoryKeys } = await endSucceeded(tables, held, now);
  return { export: await tables.exports.existing(exportId), directoryKeys };
}

export async function deleteExport(
  tables: Tables,
  exportId: string,
  now: number,
): Promise<{ directoryKeys: string[] } | null> {
  const deleted = await tables.exports.get(exportId);
  if (deleted === null) return null;
  await cancelJob(tables, exportId, 'the export was deleted', now);
  await tables.exports.markDeleted(exportId, now);
  return { directoryKeys: await tables.checkpoints.unreferenced(heldDirectories(deleted)) };
}

/** Directories that the row keeps: its source until it ends, then its files. */
export function heldDirectories({ directoryKey, sourceDirectoryKey, finishedAt }: ModelExport): (string | null)[] {
  return finishedAt === null ? [sourceDirectoryKey] : [directoryKey];
}

export async function enqueueImport(
  tables: Tables,
  adapterId: string,
  { maxLive, origin }: { maxLive?: number; origin?: JobOrigin },
  now: number,
): Promise<ImportJob | null> {
  const adapter = await tables.adapters.get(adapterId);
  if (adapter?.upload == null) return null;
  const [live] = await tables.jobs.listLiveOfTurn(adapterId);
  if (live !== undefined) return live as ImportJob;
  await refuseWhenFull(tables, ['import'], null, maxLive);
  const { entityId, baseModel } = adapter;
  const job = { entityId, modelId: null, turn: adapterId, kind: 'import', baseModel } as const;
  return (await insertJob(tables, { ...job, config: {}, dataKey: null, ...(origin && { origin }) }, now)) as ImportJob;
}

/** @throws {StoreError} `store.lease_lost` */
export async function finishImport(
  tables: Tables,
  { jobId, fencingToken }: HeldJob,
  content: NonNullable<Adapter['content']>,
  now: number,
): Promise<CommittedAdapter> {
  const held = await tables.jobs.held(jobId, fencingToken);
  const upload = (await tables.adapters.get(held.turn))?.upload ?? null;
  if (upload === null) throw new Error(`adapter ${held.turn} has no upload, but its import is still active`);
  await endSucceeded(tables, held, now);
  return {
    adapter: await tables.adapters.commit(held.turn, content, now),
    blobKeys: [upload.configKey, upload.weightsKey],
  };
}

export async function removeAdapters(
  tables: Tables,
  adapters: readonly Adapter[],
  now: number,
): Promise<RemovedAdapters> {
  for (const { id } of adapters) {
    for (const job of await tables.jobs.listLiveOfTurn(id))
      await cancelJob(tables, job.id, 'the adapter was deleted', now);
    await tables.adapters.markDeleted(id, now);
  }
  return {
    directoryKeys: await tables.checkpoints.unreferenced(adapters.map(({ content }) => content?.directoryKey ?? null)),
    digests: await tables.checkpoints.unusedDigests(adapters.map(({ content }) => content?.digest ?? null)),
    blobKeys: adapters.flatMap(({ upload }) => (upload === null ? [] : [upload.configKey, upload.weightsKey])),
  };
}
