import type { AdoptedCheckpoint, AdoptResult, Model } from './models.ts';
import type { Tables } from '../tables.ts';
import { createModel } from './model-lifecycle.ts';

/**
 * Creates the rows of a checkpoint known only to the blobs, and of its model if missing. Runs inside one
 * transaction.
 */
export async function adoptCheckpoint(tables: Tables, adopted: AdoptedCheckpoint, now: number): Promise<AdoptResult> {
  const { step, directoryKey, digest, metrics, rolloutMetrics, createdAt } = adopted;
  const model = (await tables.models.get(adopted.modelId)) ?? (await makeModel(tables, adopted, now));
  if (model === null || (await tables.checkpoints.hasStep(model.id, step))) return { kind: 'taken', model };
  const row = { modelId: model.id, step, jobId: null, directoryKey, digest, metrics };
  const { id } = await tables.checkpoints.insert(row, createdAt);
  // A policy must not remove a recovered checkpoint at once.
  await tables.retention.mark(id, now);
  await tables.models.advanceStepTo(model.id, step + 1);
  await tables.metrics.append(model.id, metrics, { step, gradientStep: null, job: null }, createdAt);
  await tables.metrics.append(model.id, rolloutMetrics, { step: step - 1, gradientStep: null, job: null }, createdAt);
  const { id: modelId, entityId } = model;
  await tables.feed.add({ type: 'checkpoint_created', entityId, modelId, data: { step } }, now);
  return { kind: 'adopted', model };
}

/** @returns null if this database has deleted the model */
async function makeModel(tables: Tables, adopted: AdoptedCheckpoint, now: number): Promise<Model | null> {
  const { project, modelId: id, baseModel, lora, warmStart } = adopted;
  if (await tables.models.wasDeleted(id)) return null;
  const { id: entityId } = await tables.keys.ensureEntity(adopted.entity, now);
  const isTaken = (await tables.models.findByIdentity(entityId, project, adopted.name)) !== null;
  // A model registered since the loss keeps its name.
  const name = isTaken ? `${adopted.name}-${id.slice(0, 8)}` : adopted.name;
  const input = { id, entityId, project, name, baseModel, lora };
  const { digest = null } = warmStart ?? {};
  const start =
    warmStart === null ? {} : { warmStart: { ...warmStart, kind: 'directory', digest: digest ?? '' } as const };
  const made = await createModel(tables, { ...input, ...start }, now);
  if (made.kind === 'warm_start_missing') throw new Error('a directory is never missing in the database');
  // Its step 0 does not have the weights of the base model, and its files are gone.
  if (warmStart !== null && digest === null) await tables.checkpoints.delete(id, new Set([0]), now);
  return made.model;
}
