import { moments } from '../rollouts/advantage.ts';
import type { TrainingStartedData } from './training-job.ts';
import type { SequenceReport } from '../rollouts/sequence-report.ts';
import type { TrajectoryGroup } from '../rollouts/trajectory.ts';

/**
 * Reported with every gradient step, because clients average over steps: `reward` (mean over submitted
 * trajectories), `reward_std_dev` (mean over groups of two or more of the population σ), `exception_rate`, and
 * counts.
 */
export function jobMetrics(groups: readonly TrajectoryGroup[], report: SequenceReport): Record<string, number> {
  const rewards = groups.map(({ trajectories }) => trajectories.map(({ reward }) => reward));
  const numExceptions = groups.reduce((total, group) => total + group.numExceptions, 0);
  const metrics: Record<string, number> = {
    num_groups_submitted: report.numGroupsSubmitted,
    num_groups_trainable: report.numGroupsTrainable,
    ...(report.numGroupsRegularized > 0 ? { num_groups_regularized: report.numGroupsRegularized } : {}),
    num_trajectories: report.numTrajectoriesSubmitted,
    num_trajectories_trainable: report.numTrajectoriesTrainable,
    ...(report.numBranchedTurns > 0
      ? { num_branched_turns: report.numBranchedTurns, num_branch_tokens: report.numBranchTokens }
      : {}),
    ...(report.numCopiedTokens > 0
      ? { num_copied_choices: report.numCopiedChoices, num_copied_tokens: report.numCopiedTokens }
      : {}),
  };
  for (const [reason, count] of Object.entries(report.droppedGroups)) metrics[`num_groups_dropped_${reason}`] = count;
  if (report.numTrajectoriesSubmitted > 0) metrics['reward'] = moments(rewards.flat()).mean;
  const spread = rewards.filter((group) => group.length >= 2);
  if (spread.length > 0)
    metrics['reward_std_dev'] = moments(spread.map((group) => moments(group).standardDeviation)).mean;
  const numRollouts = report.numTrajectoriesSubmitted + numExceptions;
  if (numRollouts > 0) metrics['exception_rate'] = numExceptions / numRollouts;
  // Sums of rewards near the largest float overflow: a statistic must not fail a job, and infinity is not
  // reported.
  return Object.fromEntries(Object.entries(metrics).filter(([, value]) => Number.isFinite(value)));
}

/** Amounts submitted and trained, drops by reason, and estimated values. */
export function startedData(
  report: SequenceReport,
  {
    numSteps,
    numRows,
    maxTokens,
    absentMetrics,
  }: { numSteps: number; numRows: number; maxTokens: number; absentMetrics: readonly string[] },
): TrainingStartedData {
  return {
    num_sequences: numSteps,
    num_rows: numRows,
    packed_sequence_length: maxTokens,
    num_groups_submitted: report.numGroupsSubmitted,
    num_groups_trainable: report.numGroupsTrainable,
    num_groups_regularized: report.numGroupsRegularized,
    num_trajectories_submitted: report.numTrajectoriesSubmitted,
    num_trajectories_trainable: report.numTrajectoriesTrainable,
    num_trajectories_regularized: report.numTrajectoriesRegularized,
    num_histories_trainable: report.numSequencesTrainable,
    num_branched_turns: report.numBranchedTurns,
    num_branch_tokens: report.numBranchTokens,
    num_copied_choices: report.numCopiedChoices,
    num_copied_tokens: report.numCopiedTokens,
    num_trainable_tokens: report.numTrainableTokens,
    num_tokens_without_logprobs: report.numTokensWithoutLogprobs,
    num_turns_without_logprobs: report.numTurnsWithoutLogprobs,
    num_retokenized_turns: report.numRetokenizedTurns,
    num_truncated_choices: report.numTruncatedChoices,
    num_divergent_prompts: report.numDivergentPrompts,
    num_choices_with_other_text: report.numChoicesWithOtherText,
    num_replayed_choices: report.sampling.numReplayed,
    unreplayed_choices: report.sampling.unreplayed,
    refused_choices: report.sampling.refused,
    group_outcomes: report.groupOutcomes,
    dropped_groups: report.droppedGroups,
    dropped_trajectories: report.droppedTrajectories,
    dropped_histories: report.droppedHistories,
    ...(absentMetrics.length === 0 ? {} : { absent_metrics: absentMetrics }),
  };
}

/** The maximum over the steps is reported, not the mean. */
const isMaximum = (name: string): boolean => name.endsWith('_max') || name === 'peak_memory_mb';

/** Counts only steps that have the metric. */
export function meanMetrics(steps: readonly Readonly<Record<string, number>>[]): Record<string, number> {
  const names = new Set(steps.flatMap((step) => Object.keys(step)));
  return Object.fromEntries(
    Array.from(names, (name) => {
      const values = steps.flatMap((step) => step[name] ?? []);
      if (isMaximum(name)) return [name, values.reduce((max, value) => Math.max(max, value), -Infinity)];
      return [name, values.reduce((total, value) => total + value / values.length, 0)];
    }),
  );
}
