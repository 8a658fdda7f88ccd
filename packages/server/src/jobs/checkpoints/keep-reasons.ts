import { KEEP_REASONS, type KeepReason } from '@trainyard/protocol';
import type { CheckpointState } from '@trainyard/store';

import type { KeepPolicy } from './keep-policy.ts';

/** Facts about a model other than its checkpoints. */
export interface ModelFacts {
  readonly now: number;
  /** Step that `NAME:best` names. */
  readonly bestStep: number | null;
  /** Step from which training on rollouts started: 0, or that of the last supervised job. */
  readonly startStep: number;
  /**
   * Oldest step that a live job starts from, or that was the newest at its submission; null without live
   * jobs.
   */
  readonly liveFrom: number | null;
  /** Steps that are the KL reference of a live or recent job. */
  readonly references: ReadonlySet<number>;
  /** Largest lag of the KL reference of a live or recent job; 0 without one. */
  readonly lag: number;
}

/** A request for the newest step, just before the next one, may not be recorded yet. */
const SUPERSEDED_MS = 120_000;

/**
 * Reasons to keep each live checkpoint, by step; a checkpoint without a reason is removed.
 * @param states live checkpoints by step
 */
export function keepReasons(
  states: readonly CheckpointState[],
  policy: KeepPolicy,
  facts: ModelFacts,
): ReadonlyMap<number, readonly KeepReason[]> {
  const newest = states.at(-1)?.step ?? 0;
  const from = Math.min(facts.liveFrom ?? newest, newest);
  // Live jobs keep the checkpoints of their submission: counting starts at the oldest job.
  const numAfter = states.filter(({ step }) => step > from).length;
  const oldestOfLast = states.at(-Math.min(states.length, numAfter + policy.last))?.step ?? 0;
  const reasons = new Map<number, KeepReason[]>();
  for (const [index, state] of states.entries()) {
    const { step, directoryKey, keptAt, usedUntil, isReferenced } = state;
    const supersededAt = states[index + 1]?.createdAt ?? -Infinity;
    const found: Record<Exclude<KeepReason, 'shared'>, boolean> = {
      last: step >= oldestOfLast,
      best: policy.best && step === facts.bestStep,
      every: policy.every !== null && step % policy.every === 0,
      marked: keptAt !== null,
      first: step === 0,
      reference: facts.references.has(step) || (facts.lag > 0 && step >= from - facts.lag),
      start: step === facts.startStep,
      requested: (usedUntil ?? 0) > facts.now,
      used: isReferenced,
      new: facts.now - supersededAt < SUPERSEDED_MS,
    };
    // Removing a step without its own files frees nothing.
    const isBase = directoryKey === null;
    const names = KEEP_REASONS.filter((reason) => reason !== 'shared' && found[reason]);
    reasons.set(step, isBase && names.length === 0 ? ['shared'] : names);
  }
  const keptKeys = new Set(
    states.filter(({ step }) => reasons.get(step)?.length !== 0).map((state) => state.directoryKey),
  );
  for (const { step, directoryKey } of states)
    if (reasons.get(step)?.length === 0 && keptKeys.has(directoryKey)) reasons.set(step, ['shared']);
  return reasons;
}

/**
 * Steps without a reason to keep them, which the policy removes.
 * @param states live checkpoints by step
 */
export function removableSteps(states: readonly CheckpointState[], policy: KeepPolicy, facts: ModelFacts): number[] {
  const reasons = keepReasons(states, policy, facts);
  return states.filter(({ step }) => reasons.get(step)?.length === 0).map(({ step }) => step);
}

/**
 * Steps whose optimizer state is removed: all except the newest, those marked by a user, and those of another
 * model.
 * @param states live checkpoints by step
 */
export function stepsWithoutOptimizer(states: readonly CheckpointState[], policy: KeepPolicy): number[] {
  const isWhole = ({ keptAt, isOptimizerShared }: CheckpointState, index: number): boolean =>
    keptAt !== null || isOptimizerShared || index >= states.length - policy.optimizer;
  const wholeKeys = new Set(states.filter(isWhole).map(({ directoryKey }) => directoryKey));
  return states
    .filter(({ directoryKey, optimizerBytes }) => !wholeKeys.has(directoryKey) && optimizerBytes !== 0)
    .map(({ step }) => step);
}
