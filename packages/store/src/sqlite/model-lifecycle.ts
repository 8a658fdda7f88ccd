// How a model comes and goes, with everything that hangs on it. Each runs inside one transaction.
import type { CreateModelResult, DeleteModelResult, NewModel, NewModelInit } from '../store.ts';
import { heldDirectories } from './exchange-lifecycle.ts';
import { cancelLiveJobs } from './job-lifecycle.ts';
import type { Tables } from './tables.ts';

export function createModel(tables: Tables, input: NewModel, now: number): CreateModelResult {
  const existing = tables.models.findByIdentity(input.entityId, input.project, input.name);
  if (existing !== null) return { kind: 'exists', model: existing };
  const weights = input.init === undefined ? { artifactKey: null, digest: null } : initialWeights(tables, input.init);
  if (weights === null) return { kind: 'init_missing' };
  const { artifactKey, digest } = weights;
  const init = input.init === undefined ? null : { source: input.init.source, artifactKey };
  const model = tables.models.insert(input, init, now);
  tables.checkpoints.insert({ modelId: model.id, step: 0, jobId: null, artifactKey, digest, metrics: {} }, now);
  if (input.completes !== undefined) tables.idempotency.complete(input.completes);
  return { kind: 'created', model };
}

function initialWeights(
  tables: Tables,
  init: NewModelInit,
): { artifactKey: string | null; digest: string | null } | null {
  return init.kind === 'directory' ? init : tables.checkpoints.get(init.modelId, init.step);
}

export function deleteModel(tables: Tables, modelId: string, now: number): DeleteModelResult | null {
  if (tables.models.get(modelId) === null) return null;
  const cancelled = cancelLiveJobs(tables, modelId, 'the model was deleted', now);
  const deleted = tables.checkpoints.listSteps(modelId).map((step) => tables.checkpoints.delete(modelId, step, now));
  const exported = tables.exports.deleteOfModel(modelId, now);
  tables.models.markDeleted(modelId, now);
  const artifactKeys = tables.checkpoints.unreferenced([
    ...deleted.map((checkpoint) => checkpoint?.artifactKey ?? null),
    ...cancelled.flatMap((job) => [job.start?.artifactKey ?? null, tables.jobs.referenceOf(job.id)]),
    ...exported.flatMap(heldDirectories),
  ]);
  return {
    deletedCheckpoints: deleted.length,
    deletedRun: false,
    artifactKeys,
    blobKeys: [...new Set([...tables.jobs.listGroupsKeys(modelId), ...tables.logs.listBlobKeys(modelId)])],
    cancelledJobIds: cancelled.map((job) => job.id),
  };
}
