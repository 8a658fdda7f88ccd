// Removal of checkpoints by a policy, and its reversal. Each function runs inside one transaction.
import {
  type CheckpointState,
  liveCheckpoints,
  type MarkedCheckpoints,
  type RemovedCheckpoints,
} from './checkpoint-retention.ts';
import type { Tables } from '../tables.ts';

/** Decides again by the present database: a job or a request may have arrived since the policy looked. */
export async function removeCheckpoints(
  tables: Tables,
  modelId: string,
  steps: ReadonlySet<number>,
  now: number,
): Promise<RemovedCheckpoints> {
  const model = await tables.models.get(modelId);
  const live = model === null ? [] : liveCheckpoints(await tables.retention.list(modelId));
  const latest = live.at(-1)?.step ?? 0;
  const removed = live.filter(
    ({ step, directoryKey, keptAt, usedUntil, isReferenced }) =>
      steps.has(step) &&
      step !== latest &&
      directoryKey !== null &&
      keptAt === null &&
      (usedUntil ?? 0) <= now &&
      !isReferenced,
  );
  const digests: (string | null)[] = [];
  for (const { id } of removed) {
    digests.push(await tables.retention.digestOf(id));
    await tables.retention.remove(id, now);
  }
  if (model !== null && removed.length > 0) {
    const data = { steps: removed.map(({ step }) => step), reason: 'keep_checkpoints' };
    await tables.feed.add({ type: 'checkpoints_deleted', entityId: model.entityId, modelId, data }, now);
  }
  return {
    steps: removed.map(({ step }) => step),
    directoryKeys: await tables.checkpoints.unreferenced(removed.map(({ directoryKey }) => directoryKey)),
    digests: await tables.checkpoints.unusedDigests(digests),
  };
}

export async function markCheckpoints(
  tables: Tables,
  modelId: string,
  { steps, isKept }: { steps: ReadonlySet<number>; isKept: boolean },
  now: number,
): Promise<MarkedCheckpoints> {
  const model = await tables.models.get(modelId);
  const states = model === null ? [] : await tables.retention.list(modelId);
  const found = states.filter(({ step, removedAt }) => steps.has(step) && (isKept || removedAt === null));
  for (const { id, keptAt, removedAt } of found)
    if (removedAt !== null || (keptAt !== null) !== isKept) await tables.retention.mark(id, isKept ? now : null);
  const marked = new Set(found.map(({ step }) => step));
  return { steps: [...marked], notFoundSteps: [...steps].filter((step) => !marked.has(step)) };
}

/**
 * Decides again, like {@link removeCheckpoints}. Other models may share a directory; the state in it belongs
 * to the model that was trained up to it.
 */
export async function dropOptimizers(
  tables: Tables,
  modelId: string,
  steps: ReadonlySet<number>,
  now: number,
): Promise<string[]> {
  const live = liveCheckpoints(await tables.retention.list(modelId));
  const latest = live.at(-1)?.step ?? 0;
  const isHeld = ({ step, keptAt, isOptimizerShared }: CheckpointState): boolean =>
    step === latest || keptAt !== null || isOptimizerShared;
  const held = new Set(live.filter(isHeld).map(({ directoryKey }) => directoryKey));
  const keys = new Set(live.filter(({ step }) => steps.has(step)).map(({ directoryKey }) => directoryKey));
  const dropped: string[] = [];
  for (const key of keys) {
    if (key === null || held.has(key) || (await tables.retention.isStartOfLiveJob(key))) continue;
    await tables.retention.dropOptimizer(key, now);
    dropped.push(key);
  }
  return dropped;
}
