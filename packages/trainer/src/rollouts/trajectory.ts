import type { HistoryItem } from '@trainyard/tokenizer';

/** Several attempts at the same scenario, compared with each other. */
export interface TrajectoryGroup {
  readonly trajectories: readonly Trajectory[];
  /** Failed rollouts: counted in statistics, not in the mean reward. */
  readonly numExceptions: number;
}

export interface Trajectory {
  /** Any finite number. */
  readonly reward: number;
  /** Rendered and trained separately: agents that rewrite their context have several. */
  readonly histories: readonly History[];
}

/** One conversation, with the tools of its rendering. */
export interface History {
  readonly items: readonly HistoryItem[];
  readonly tools: readonly unknown[] | null;
  /** Template variables of its rendering. Default: none. */
  readonly templateVariables?: Readonly<Record<string, unknown>>;
}
