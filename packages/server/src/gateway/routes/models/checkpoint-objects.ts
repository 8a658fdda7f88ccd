import type { CheckpointObject, PageQuery } from '@trainyard/protocol';
import { type Checkpoint, type CheckpointState, liveCheckpoints, type Page, StoreError } from '@trainyard/store';

import { keepReasons } from '../../../jobs/checkpoints/keep-reasons.ts';
import { modelFacts } from '../../../jobs/checkpoints/model-facts.ts';
import type { RouteParts } from '../../parts/server-parts.ts';
import { readMetrics } from './checkpoint-metrics.ts';

const DEFAULT_LIMIT = 20;

export async function checkpointObjects(
  { store, keepPolicy }: Pick<RouteParts, 'store' | 'keepPolicy'>,
  modelId: string,
  checkpoints: readonly Checkpoint[],
): Promise<CheckpointObject[]> {
  if (checkpoints.length === 0) return [];
  const metrics = await readMetrics(store, modelId, checkpoints);
  const live = liveCheckpoints(await store.retention.listStates(modelId));
  const reasons = keepPolicy === null ? null : keepReasons(live, keepPolicy, await modelFacts(store, modelId, live));
  const states = new Map(live.map((state) => [state.step, state]));
  return checkpoints.map(({ id, step }, index) => ({
    id,
    step,
    metrics: metrics[index]!,
    ...storageOf(states.get(step)),
    kept_for: reasons === null ? null : [...(reasons.get(step) ?? [])],
  }));
}

type RemovedQuery = PageQuery & { readonly minStep?: number; readonly maxStep?: number };

/** Page of removed checkpoints that can still be restored. */
export async function removedCheckpoints(
  { store }: Pick<RouteParts, 'store'>,
  modelId: string,
  { order = 'asc', limit = DEFAULT_LIMIT, after, minStep = 0, maxStep = Infinity }: RemovedQuery,
): Promise<Page<CheckpointObject>> {
  const states = (await store.retention.listStates(modelId)).filter(
    ({ step, removedAt }) => removedAt !== null && step >= minStep && step <= maxStep,
  );
  if (order === 'desc') states.reverse();
  const seen = after === undefined ? -1 : states.findIndex(({ id }) => id === after);
  if (after !== undefined && seen === -1)
    throw new StoreError('store.cursor_unknown', `no removed checkpoint has the id ${after}`);
  const items = states.slice(seen + 1, seen + 1 + limit);
  return {
    items: items.map((state) => ({
      id: state.id,
      step: state.step,
      metrics: {},
      ...storageOf(state),
      kept_for: null,
    })),
    hasMore: states.length > seen + 1 + limit,
  };
}

type Storage = Pick<CheckpointObject, 'size_bytes' | 'optimizer_bytes' | 'is_marked' | 'removed_at'>;

function storageOf(state: CheckpointState | undefined): Storage {
  const { sizeBytes = null, optimizerBytes = null, keptAt = null, removedAt = null } = state ?? {};
  return {
    size_bytes: sizeBytes,
    optimizer_bytes: optimizerBytes,
    is_marked: keptAt !== null,
    removed_at: removedAt === null ? null : Math.floor(removedAt / 1000),
  };
}
