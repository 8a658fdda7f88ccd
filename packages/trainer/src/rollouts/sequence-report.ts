import type { SamplingReport } from '../packing/choice-replay.ts';
import type { TrajectoryGroup } from './trajectory.ts';

/**
 * Every submitted trajectory is trained, contributes to other terms of the loss, or is dropped for exactly one
 * of these; a group is dropped if all its trajectories are, for the reason of the first.
 */
export type DropReason =
  /** The group has no trajectories. */
  | 'no_trajectories'
  /** All rollouts failed. */
  | 'exception'
  | 'single_trajectory'
  | 'equal_rewards'
  | 'zero_advantage'
  /** Nothing was sampled: no choice, or only empty ones. */
  | 'no_trainable_tokens'
  /** No assistant turn has log-probabilities. */
  | 'missing_logprobs'
  | 'too_long'
  /** All its choices are trained elsewhere in the job. */
  | 'copied'
  /** `advantage_balance` left no advantage of either sign. */
  | 'balanced_away';

/** `regularized`: without an advantage, but used by other terms of the loss. */
export type GroupOutcome = 'trained' | 'regularized' | DropReason;

/** One submitted trajectory. */
export interface TrajectoryOutcome {
  readonly outcome: GroupOutcome;
  /** Centred reward; null if the rewards of the group are equal. */
  readonly advantage: number | null;
}

export type DropCounts = Partial<Record<DropReason, number>>;

/** A trained history against the sampled one. */
export interface HistoryDrift {
  /** Choices without an end token: cut by a length limit or a stop string. */
  readonly numTruncatedChoices: number;
  /** Assistant turns with unknown ids, tokenised again: as context, or trained if allowed. */
  readonly numRetokenizedTurns: number;
  /** Choices whose message differs from their tokens, which are trained. */
  readonly numChoicesWithOtherText: number;
}

/** Drift is summed over trained histories. */
export interface SequenceReport extends HistoryDrift {
  readonly numGroupsSubmitted: number;
  readonly numGroupsTrainable: number;
  /** Groups used only by terms of the loss other than the rewards. */
  readonly numGroupsRegularized: number;
  readonly numTrajectoriesSubmitted: number;
  readonly numTrajectoriesTrainable: number;
  /** Trajectories without an advantage that other terms use, in any group. */
  readonly numTrajectoriesRegularized: number;
  /** Histories, or parts of them that are separate because an earlier turn was rewritten. */
  readonly numSequencesTrainable: number;
  /** Trained turns that start such a part: their prompt differs from the tokens sampled before. */
  readonly numBranchedTurns: number;
  /** Prompt tokens computed only for these. */
  readonly numBranchTokens: number;
  /**
   * Choices with an unknown prompt, after other tokens than the template's: the same text, tokenised or spelled
   * differently.
   */
  readonly numDivergentPrompts: number;
  readonly numTrainableTokens: number;
  /** Repeated choices in the job, and their tokens. */
  readonly numCopiedChoices: number;
  readonly numCopiedTokens: number;
  /** Trained at ratio 1. */
  readonly numTokensWithoutLogprobs: number;
  /** Count over all submitted histories. */
  readonly numTurnsWithoutLogprobs: number;
  /** One per submitted trajectory, by group. */
  readonly trajectoryOutcomes: readonly (readonly TrajectoryOutcome[])[];
  /** One per submitted group, in order. */
  readonly groupOutcomes: readonly GroupOutcome[];
  readonly droppedGroups: DropCounts;
  readonly droppedTrajectories: DropCounts;
  /** Histories dropped from trajectories with an advantage; `too_long` counts sequences. */
  readonly droppedHistories: DropCounts;
  /** Sampling of the choices of trajectories with an advantage. */
  readonly sampling: SamplingReport;
}

interface TrajectoryPlace {
  readonly groupIndex: number;
  readonly trajectoryIndex: number;
}

export class DropLedger {
  readonly #firstReasons = new Map<number, DropReason>();
  readonly #reasons = new Map<string, DropReason>();
  readonly trajectories: DropCounts = {};
  readonly histories: DropCounts = {};

  dropTrajectory({ groupIndex, trajectoryIndex }: TrajectoryPlace, reason: DropReason): void {
    this.#reasons.set(`${groupIndex} ${trajectoryIndex}`, reason);
    if (!this.#firstReasons.has(groupIndex)) this.#firstReasons.set(groupIndex, reason);
    count(this.trajectories, reason);
  }

  /** Null if it was not dropped. */
  reasonOf({ groupIndex, trajectoryIndex }: TrajectoryPlace): DropReason | null {
    return this.#reasons.get(`${groupIndex} ${trajectoryIndex}`) ?? null;
  }

  dropHistory(reason: DropReason): void {
    count(this.histories, reason);
  }

  outcomes(
    groups: readonly TrajectoryGroup[],
    { trained, fed }: { trained: ReadonlySet<number>; fed: ReadonlySet<number> },
  ): Pick<SequenceReport, 'groupOutcomes' | 'droppedGroups'> {
    const droppedGroups: DropCounts = {};
    const groupOutcomes = groups.map(({ trajectories, numExceptions }, groupIndex) => {
      if (trained.has(groupIndex)) return 'trained';
      if (fed.has(groupIndex)) return 'regularized';
      const reason =
        trajectories.length > 0
          ? this.#firstReasons.get(groupIndex)!
          : numExceptions > 0
            ? 'exception'
            : 'no_trajectories';
      count(droppedGroups, reason);
      return reason;
    });
    return { groupOutcomes, droppedGroups };
  }
}

function count(counts: DropCounts, reason: DropReason): void {
  counts[reason] = (counts[reason] ?? 0) + 1;
}
