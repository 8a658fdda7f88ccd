import type { HistoryItem } from '@trainyard/tokenizer';

/** Attempts at the same scenario, compared with each other. */
export interface TrajectoryGroup {
  readonly trajectories: readonly Trajectory[];
  /** Counted in statistics, not in the mean reward. */
  readonly numExceptions: number;
}

export interface Trajectory {
  /** Any finite number. */
  readonly reward: number;
  /** Rendered separately: agents that rewrite their context have several. */
  readonly histories: readonly History[];
}

/** One conversation, and the tools for rendering it. */
export interface History {
  readonly items: readonly HistoryItem[];
  readonly tools: readonly unknown[] | null;
  /** Default: none. */
  readonly templateVariables?: Readonly<Record<string, unknown>>;
}
