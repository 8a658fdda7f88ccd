// Creation, labels and deletion of a model with everything that depends on it. Each runs inside one transaction.
import type {
  CreateModelResult,
  DeleteModelResult,
  LabelChange,
  LabelResult,
  NewModel,
  NewWarmStart,
} from './models.ts';
import { heldDirectories } from '../transfers/transfer-lifecycle.ts';
import { cancelLiveJobs, directoriesOf, TRAINING_JOB_KINDS } from '../jobs/job-lifecycle.ts';
import type { Tables } from '../tables.ts';

export async function createModel(tables: Tables, input: NewModel, now: number): Promise<CreateModelResult> {
  const existing = await tables.models.findByIdentity(input.entityId, input.project, input.name);
  if (existing !== null) return { kind: 'exists', model: existing };
  const weights =
    input.warmStart === undefined
      ? { directoryKey: null, digest: null }
      : await initialWeights(tables, input.warmStart);
  if (weights === null) return { kind: 'warm_start_missing' };
  const { directoryKey, digest } = weights;
  const warmStart = input.warmStart === undefined ? null : { source: input.warmStart.source, directoryKey };
  const model = await tables.models.insert(input, warmStart, now);
  await tables.modelTags.add(model.id, input.tags ?? []);
  await tables.checkpoints.insert({ modelId: model.id, step: 0, jobId: null, directoryKey, digest, metrics: {} }, now);
  await tables.feed.add({ type: 'model_created', entityId: model.entityId, modelId: model.id }, now);
  return { kind: 'created', model };
}

/** A refused change leaves no trace. */
export async function labelModel(
  tables: Tables,
  modelId: string,
  { addTags = [], removeTags = [], notes, isArchived, maxTags = Infinity }: LabelChange,
  now: number,
): Promise<LabelResult | null> {
  const before = await tables.models.get(modelId);
  if (before === null) return null;
  if (isArchived === true && before.archivedAt === null) {
    const numJobs = await tables.jobs.countLive(TRAINING_JOB_KINDS, modelId);
    if (numJobs > 0) return { kind: 'live_jobs', numJobs };
  }
  const tags = new Set((await tables.modelTags.list([modelId])).get(modelId) ?? []);
  for (const tag of removeTags) tags.delete(tag);
  const added = [...new Set(addTags)].filter((tag) => !tags.has(tag));
  const numTags = tags.size + added.length;
  if (added.length > 0 && numTags > maxTags) return { kind: 'too_many_tags', numTags };
  await tables.modelTags.remove(modelId, removeTags);
  await tables.modelTags.add(modelId, added);
  if (notes !== undefined) await tables.models.setNotes(modelId, notes);
  if (isArchived !== undefined) await tables.models.setArchived(modelId, isArchived ? now : null);
  await tables.feed.add({ type: 'model_labelled', entityId: before.entityId, modelId }, now);
  const model = await tables.models.get(modelId);
  if (model === null) throw new Error(`model ${modelId} vanished`);
  return { kind: 'labelled', model };
}

async function initialWeights(
  tables: Tables,
  warmStart: NewWarmStart,
): Promise<{ directoryKey: string | null; digest: string | null } | null> {
  return warmStart.kind === 'directory' ? warmStart : await tables.checkpoints.get(warmStart.modelId, warmStart.step);
}

export async function deleteModel(tables: Tables, modelId: string, now: number): Promise<DeleteModelResult | null> {
  const model = await tables.models.get(modelId);
  if (model === null) return null;
  const cancelled = await cancelLiveJobs(tables, modelId, 'the model was deleted', now);
  // Includes exports, which read their start.
  const held: (string | null)[] = [];
  for (const job of cancelled) held.push(...(await directoriesOf(tables, job)));
  const steps = await tables.checkpoints.listSteps(modelId);
  const deleted = await tables.checkpoints.delete(modelId, new Set(steps), now);
  held.push(...deleted.map(({ directoryKey }) => directoryKey));
  const exported = await tables.exports.deleteOfModel(modelId, now);
  // Hides its run from here on; `sweepDeleted` removes the rows, which can be many.
  await tables.models.markDeleted(modelId, now);
  await tables.feed.add({ type: 'model_deleted', entityId: model.entityId, modelId }, now);
  const directoryKeys = await tables.checkpoints.unreferenced([...held, ...exported.flatMap(heldDirectories)]);
  return {
    deletedCheckpoints: steps.length,
    deletedRun: true,
    directoryKeys,
    digests: await tables.checkpoints.unusedDigests(deleted.map(({ digest }) => digest)),
    blobKeys: [
      ...new Set([...(await tables.jobs.data.listKeysOf(modelId)), ...(await tables.logs.data.listKeysOf(modelId))]),
    ],
    cancelledJobIds: cancelled.map((job) => job.id),
  };
}

/**
 * Removes up to `limit` rows of the runs of deleted models.
 * @returns true if there may be more
 */
export async function sweepDeleted(tables: Tables, limit: number): Promise<boolean> {
  const numPoints = await tables.metrics.deleteOfDeleted(limit);
  if (numPoints >= limit) return true;
  return (await tables.trajectories.deleteOfDeleted(limit - numPoints)) >= limit - numPoints;
}
