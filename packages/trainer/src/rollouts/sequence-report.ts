import type { SamplingReport } from '../packing/choice-replay.ts';
import type { TrajectoryGroup } from './trajectory.ts';

/**
 * Why something was not trained. Every submitted trajectory is trained, feeds the other terms of the loss, or is dropped for exactly one of these; a group is dropped when
 * all its trajectories are, for the reason of the first.
 */
export type DropReason =
  /** The group has no trajectories. */
  | 'no_trajectories'
  /** All rollouts of the group failed. */
  | 'exception'
  | 'single_trajectory'
  | 'equal_rewards'
  | 'zero_advantage'
  /** Nothing was sampled: no choice, or only empty ones. */
  | 'no_trainable_tokens'
  /** Assistant turns are there, and all came without log-probabilities. */
  | 'missing_logprobs'
  | 'too_long'
  /** All its choices are trained elsewhere in the job. */
  | 'copied'
  /** `advantage_balance` left no advantage of either sign. */
  | 'balanced_away';

/** `regularized`: no advantage in it, but other terms of the loss are fed by it. */
export type GroupOutcome = 'trained' | 'regularized' | DropReason;

/** The fate of a submitted trajectory. */
export interface TrajectoryOutcome {
  readonly outcome: GroupOutcome;
  /** Its reward against those of its group; null where these are equal. */
  readonly advantage: number | null;
}

export type DropCounts = Partial<Record<DropReason, number>>;

/** How a history, as it is trained, differs from exactly what was sampled. */
export interface HistoryDrift {
  /** Trained choices that end without an end token: cut by a length limit or a stop string. */
  readonly numTruncatedChoices: number;
  /** Assistant turns whose ids are not known, so that their text was tokenised again: as context, or trained where that is allowed. */
  readonly numRetokenizedTurns: number;
  /** Trained choices whose message says something that their tokens do not. The tokens are trained. */
  readonly numChoicesWithOtherText: number;
}

/** The fate of the submitted groups; of drift the sums over trained histories. */
export interface SequenceReport extends HistoryDrift {
  readonly numGroupsSubmitted: number;
  readonly numGroupsTrainable: number;
  /** Groups that only the terms of the loss besides the rewards are fed by. */
  readonly numGroupsRegularized: number;
  readonly numTrajectoriesSubmitted: number;
  readonly numTrajectoriesTrainable: number;
  /** Trajectories without an advantage that those terms are fed by, in any group. */
  readonly numTrajectoriesRegularized: number;
  /** Histories, or the parts of them that stand alone because an earlier turn was rewritten. */
  readonly numSequencesTrainable: number;
  /** Trained turns that begin such a part: what was sampled before them is not what they were sampled behind. */
  readonly numBranchedTurns: number;
  /** Prompt tokens that are computed for these alone. */
  readonly numBranchTokens: number;
  /** Trained choices whose own prompt is not known, behind other tokens than the template gives for the messages before: the same text, cut or spelled differently. */
  readonly numDivergentPrompts: number;
  readonly numTrainableTokens: number;
  /** Choices that are another occurrence of one that the job holds already, and their tokens. */
  readonly numCopiedChoices: number;
  readonly numCopiedTokens: number;
  /** Trainable tokens that came without a log-probability: trained at ratio 1. */
  readonly numTokensWithoutLogprobs: number;
  /** Assistant turns of all submitted histories that came without log-probabilities. */
  readonly numTurnsWithoutLogprobs: number;
  /** One for each submitted trajectory, by group. */
  readonly trajectoryOutcomes: readonly (readonly TrajectoryOutcome[])[];
  /** One for each submitted group, in order. */
  readonly groupOutcomes: readonly GroupOutcome[];
  readonly droppedGroups: DropCounts;
  readonly droppedTrajectories: DropCounts;
  /** Histories dropped from trajectories that have an advantage; `too_long` counts sequences. */
  readonly droppedHistories: DropCounts;
  /** How the choices of trajectories that have an advantage were sampled. */
  readonly sampling: SamplingReport;
}

interface TrajectoryPlace {
  readonly groupIndex: number;
  readonly trajectoryIndex: number;
}

/** Counts what is dropped, so that nothing vanishes silently. */
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

  /** Null: it was not dropped. */
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
