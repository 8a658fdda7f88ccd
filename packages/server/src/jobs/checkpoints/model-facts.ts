import type { CheckpointState, Job, Store } from '@trainyard/store';
import type { TrainingConfig } from '@trainyard/trainer';

import type { ModelFacts } from './keep-reasons.ts';

/** Number of ended jobs whose KL references are kept for similar jobs to come. */
const RECENT_JOBS = 20;
const MAX_LIVE_JOBS = 1000;

export type FactsStore = Pick<Store, 'clock' | 'jobs' | 'runs' | 'checkpoints'>;

/**
 * Facts about a model that decide which of its checkpoints are kept.
 * @param states its live checkpoints by step
 */
export async function modelFacts(
  store: FactsStore,
  modelId: string,
  states: readonly CheckpointState[],
): Promise<ModelFacts> {
  const pages = await Promise.all([
    store.jobs.list({ modelId, status: 'running', limit: MAX_LIVE_JOBS }),
    store.jobs.list({ modelId, status: 'queued', limit: MAX_LIVE_JOBS }),
    store.jobs.list({ modelId, order: 'desc', limit: RECENT_JOBS }),
  ]);
  const [running, queued, recent] = pages.map(({ items }) => items);
  const live = [...running!, ...queued!];
  const newest = states.at(-1)?.step ?? 0;
  const liveSteps = live.map((job) => job.start?.step ?? newestAt(states, job.createdAt));
  const configs = [...live, ...recent!].map(configOf).filter((config) => config !== null);
  const best = await store.runs.bestCheckpoint(modelId);
  return {
    now: store.clock.now(),
    bestStep: best?.step ?? null,
    startStep: await store.checkpoints.rolloutsBeganAt(modelId, newest),
    liveFrom: liveSteps.length === 0 ? null : Math.min(...liveSteps),
    references: new Set(configs.map((config) => config.klPenaltyReferenceStep ?? 0)),
    lag: Math.max(0, ...configs.map((config) => config.klPenaltyStepLag ?? 0)),
  };
}

/** Settings of a job on rollouts; one from an earlier release may lack some. */
function configOf({ kind, config }: Job): Partial<TrainingConfig> | null {
  return kind === 'rl' ? ((config['resolved'] ?? {}) as Partial<TrainingConfig>) : null;
}

function newestAt(states: readonly CheckpointState[], at: number): number {
  return states.findLast(({ createdAt }) => createdAt <= at)?.step ?? 0;
}
