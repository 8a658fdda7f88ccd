import type { Access } from '../access.ts';
import { BEST_BY, type Runs } from './runs.ts';

export function sqlRuns({ tables, write }: Access): Runs {
  return {
    listSeries: async (modelId) => await tables.metrics.list(modelId),
    readSeries: async (query) => await tables.metrics.read(query),
    bestCheckpoint: async (modelId) => (await tables.metrics.best([modelId], BEST_BY)).get(modelId) ?? null,
    trackerPosition: async (tracker) => await tables.trackers.position(tracker),
    advanceTracker: (tracker, position, gradientSteps) =>
      write(({ trackers }) => trackers.advance(tracker, position, gradientSteps)),
    getTracked: async (tracker, modelId) => await tables.trackers.get(tracker, modelId),
    setTracked: (tracker, modelId, run) => write(({ trackers }) => trackers.set(tracker, modelId, run)),
  };
}
