import { type Access, HEARTBEAT } from '../access.ts';
import type { CheckpointRetention } from './checkpoint-retention.ts';
import { dropOptimizers, markCheckpoints, removeCheckpoints } from './retention-lifecycle.ts';

export function sqlCheckpointRetention({ tables, now, write, writeAnswered }: Access): CheckpointRetention {
  return {
    listModelsTrainedSince: async (at) => await tables.retention.listModelsTrainedSince(at),
    listStates: async (modelId) => await tables.retention.list(modelId),
    setSizes: (directoryKey, sizes) => write(({ retention }) => retention.setSizes(directoryKey, sizes), HEARTBEAT),
    hold: (modelId, step, until) => write(({ retention }) => retention.hold(modelId, step, until), HEARTBEAT),
    mark: (modelId, steps, isKept, completes) =>
      writeAnswered((own) => markCheckpoints(own, modelId, { steps: new Set(steps), isKept }, now()), completes),
    remove: (modelId, steps) => write((own) => removeCheckpoints(own, modelId, new Set(steps), now())),
    dropOptimizers: (modelId, steps) => write((own) => dropOptimizers(own, modelId, new Set(steps), now())),
    isOptimizerDropped: async (directoryKey) => await tables.retention.isOptimizerDropped(directoryKey),
    forget: (ids) =>
      write(async ({ retention }) => {
        for (const id of ids) await retention.forget(id);
      }),
    sum: async () => await tables.retention.sum(),
  };
}
