import type { Access } from '../access.ts';
import type { Checkpoints } from './checkpoints.ts';

export function sqlCheckpoints({ tables, now, write, writeAnswered }: Access): Checkpoints {
  return {
    list: async (query) => await tables.checkpoints.list(query),
    get: async (modelId, step) => await tables.checkpoints.get(modelId, step),
    latest: async (modelId) => await tables.checkpoints.latest(modelId),
    newestVersions: async (modelId, limit) => await tables.checkpoints.newestVersions(modelId, limit),
    rolloutsBeganAt: async (modelId, step) => await tables.checkpoints.lastSupervised(modelId, step),
    delete: (modelId, steps, completes) =>
      writeAnswered(async ({ checkpoints, models, feed }) => {
        const at = now();
        const wanted = new Set(steps);
        const deleted = await checkpoints.delete(modelId, wanted, at);
        const deletedSteps = new Set(deleted.map(({ step }) => step));
        const notFoundSteps = [...wanted].filter((step) => !deletedSteps.has(step));
        const model = deleted.length === 0 ? null : await models.get(modelId);
        if (model !== null) {
          const data = { steps: [...deletedSteps] };
          await feed.add({ type: 'checkpoints_deleted', entityId: model.entityId, modelId, data }, at);
        }
        const directoryKeys = await checkpoints.unreferenced(deleted.map((checkpoint) => checkpoint.directoryKey));
        const digests = await checkpoints.unusedDigests(deleted.map((checkpoint) => checkpoint.digest));
        return { deletedCount: deleted.length, notFoundSteps, directoryKeys, digests };
      }, completes),
    mergeMetrics: (modelId, step, metrics) =>
      write(async ({ checkpoints }) => {
        const checkpoint = await checkpoints.get(modelId, step);
        if (checkpoint === null) return null;
        const merged = { ...checkpoint.metrics, ...metrics };
        await checkpoints.setMetrics(checkpoint.id, merged);
        return { ...checkpoint, metrics: merged };
      }),
    unusedDigests: async (digests) => await tables.checkpoints.unusedDigests(digests),
    stepsOf: async (digests) => await tables.checkpoints.stepsOf(digests),
  };
}
