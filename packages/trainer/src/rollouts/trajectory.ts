import type { HistoryItem } from '@trainyard/tokenizer';

/** Several attempts at the same scenario, compared with each other. */
export interface TrajectoryGroup {
  readonly trajectories: readonly Trajectory[];
  /** Rollouts that failed: counted in statistics, not in the mean reward. */
  readonly numExceptions: number;
}

/** The record of one rollout. */
export interface Trajectory {
  /** Any finite number. */
  readonly reward: number;
  /** Each is rendered and trained for itself: agents that rewrite their context have several. */
  readonly histories: readonly History[];
}

/** One conversation, with the tools it was rendered with. */
export interface History {
  readonly items: readonly HistoryItem[];
  readonly tools: readonly unknown[] | null;
  /** Variables of the template that it was rendered with. Default: none. */
  readonly templateVariables?: Readonly<Record<string, unknown>>;
}
