import type { OrderedPageQuery } from './page.ts';

/** Rewards of the trajectories of each group, in the order received. */
export type GroupRewards = readonly (readonly number[])[];

/** Digests of the prompts of the same trajectories, equal for equal prompts; null without a prompt. */
export type GroupPrompts = readonly (readonly (string | null)[])[];

export interface TrajectoryOutcome {
  /** `trained`, or the reason why not. */
  outcome: string;
  /** Its reward relative to its group; null if that has no meaning. */
  advantage: number | null;
}

export interface TrajectoryPlace {
  groupIndex: number;
  trajectoryIndex: number;
}

/** Tokens of a trajectory in a gradient step, as the trainer wrote them. */
export interface NewTokenTrace extends TrajectoryPlace {
  trace: Uint8Array;
}

/** Record of one rollout, without its content. */
export interface TrajectorySummary extends TrajectoryPlace {
  /** Derived from the job or log and the place in it. */
  id: string;
  modelId: string;
  /** Job that received it; null for a log. */
  jobId: string | null;
  /** Log that contains it; null for a job. */
  logId: string | null;
  /** `train` for a job. */
  split: string;
  /** Latest step of the model when it was sampled: for a job, the one that it starts from. */
  step: number;
  /** A reward too large for a number is stored as the largest number. */
  reward: number;
  /** Null for a log, and before the job starts. */
  outcome: string | null;
  advantage: number | null;
  /**
   * Digest of the messages before its first reply, and of its tools; null if there are none, and for
   * trajectories older than digests.
   */
  promptDigest: string | null;
}

export interface TrajectoryQuery extends OrderedPageQuery {
  modelId: string;
  jobId?: string;
  logId?: string;
  split?: string;
  step?: number;
  groupIndex?: number;
  outcome?: string;
  promptDigest?: string;
  /** Default: in order of arrival. */
  sort?: 'position' | 'reward';
}

/** A trajectory and the place of its content. */
export interface TrajectoryRecord extends TrajectorySummary {
  entityId: string;
  /** Blob of its job or log; null if that is gone. */
  blobKey: string | null;
}

export interface TokenTrace {
  /** Number of the step in its job, 0-based. */
  gradientStep: number;
  trace: Uint8Array;
}
