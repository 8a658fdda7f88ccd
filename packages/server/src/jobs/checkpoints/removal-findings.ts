import { formatMegabytes } from '@trainyard/protocol/fields';
import {
  type CheckpointState,
  type Finding,
  liveCheckpoints,
  lookAtStore,
  type Model,
  type SqlStore,
  type StoreLocation,
} from '@trainyard/store';

import type { KeepPolicy } from './keep-policy.ts';
import { removableSteps, stepsWithoutOptimizer } from './keep-reasons.ts';
import { modelFacts } from './model-facts.ts';

const MODELS_OF_A_PAGE = 100;
/** Maximum number of models with their own line; the sum includes all. */
const MAX_LINES = 20;

interface Removal {
  readonly name: string;
  readonly numCheckpoints: number;
  readonly bytes: number;
  readonly optimizerBytes: number;
}

/**
 * Lists the removals of this policy's next round: counts and bytes, the sum and then per model. Removes
 * nothing. Empty before the first start, and for the schema of another release.
 * @param policy null: all checkpoints stay
 */
export async function* removalFindings(database: StoreLocation, policy: KeepPolicy | null): AsyncGenerator<Finding> {
  if (policy === null) return;
  const removals = await lookAtStore(database, (store) => removalsBy(store, policy));
  if (removals === null) return;
  const numModels = removals.length === 1 ? '1 model' : `${removals.length} models`;
  yield {
    name: 'keep_checkpoints',
    subject: removals.length === 0 ? '--keep-checkpoints would remove nothing now' : lineOf(sumOf(removals), numModels),
    problem: null,
  };
  const largest = removals.toSorted((one, other) => other.bytes - one.bytes);
  for (const removal of largest.slice(0, MAX_LINES))
    yield { name: 'keep_checkpoints_of_model', subject: lineOf(removal, removal.name), problem: null };
  if (largest.length <= MAX_LINES) return;
  const others = largest.slice(MAX_LINES);
  const subject = lineOf(sumOf(others), `${others.length} more models`);
  yield { name: 'keep_checkpoints_of_others', subject, problem: null };
}

async function removalsBy(store: SqlStore, policy: KeepPolicy): Promise<Removal[]> {
  const removals: Removal[] = [];
  for (let after: string | null = null; ;) {
    const page = await store.models.list({ limit: MODELS_OF_A_PAGE, after });
    for (const model of page.items) {
      const removal = await removalOf(store, model, policy);
      if (removal.numCheckpoints > 0 || removal.bytes > 0) removals.push(removal);
    }
    after = page.items.at(-1)?.id ?? null;
    if (!page.hasMore || after === null) return removals;
  }
}

async function removalOf(store: SqlStore, model: Model, policy: KeepPolicy): Promise<Removal> {
  const states = liveCheckpoints(await store.retention.listStates(model.id));
  const removed = new Set(removableSteps(states, policy, await modelFacts(store, model.id, states)));
  const kept = states.filter(({ step }) => !removed.has(step));
  const dropped = new Set(stepsWithoutOptimizer(kept, policy));
  const gone = byDirectory(states.filter(({ step }) => removed.has(step)));
  const lighter = byDirectory(kept.filter(({ step }) => dropped.has(step)));
  const optimizerBytes = sumBytes([...gone, ...lighter], 'optimizerBytes');
  return {
    name: `${model.entity}/${model.project}/${model.name}`,
    numCheckpoints: removed.size,
    bytes: sumBytes(gone, 'sizeBytes') + optimizerBytes,
    optimizerBytes,
  };
}

/** Counts checkpoints that share a directory once. */
function byDirectory(states: readonly CheckpointState[]): CheckpointState[] {
  return [...new Map(states.map((state) => [state.directoryKey, state])).values()];
}

function sumBytes(states: readonly CheckpointState[], key: 'sizeBytes' | 'optimizerBytes'): number {
  return states.reduce((sum, state) => sum + (state[key] ?? 0), 0);
}

function sumOf(removals: readonly Removal[]): Omit<Removal, 'name'> {
  const sum = (key: 'numCheckpoints' | 'bytes' | 'optimizerBytes'): number =>
    removals.reduce((total, removal) => total + removal[key], 0);
  return { numCheckpoints: sum('numCheckpoints'), bytes: sum('bytes'), optimizerBytes: sum('optimizerBytes') };
}

function lineOf({ numCheckpoints, bytes, optimizerBytes }: Omit<Removal, 'name'>, of: string): string {
  const count = numCheckpoints === 1 ? '1 checkpoint' : `${numCheckpoints} checkpoints`;
  return `--keep-checkpoints would remove ${count} of ${of}: ${formatMegabytes(bytes)}, ${formatMegabytes(optimizerBytes)} of it optimizer state`;
}
