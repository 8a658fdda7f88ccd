import type { OrderedPageQuery } from './page.ts';

/** Rewards of the trajectories of each group, in the order in which they were sent. */
export type GroupRewards = readonly (readonly number[])[];

/** Digests of the prompts of the same trajectories, of equal ones the same; null where there is no prompt. */
export type GroupPrompts = readonly (readonly (string | null)[])[];

/** The fate of a trajectory in its job. */
export interface TrajectoryOutcome {
  /** `trained`, or why not. */
  outcome: string;
  /** Its reward against those of its group; null where that says nothing. */
  advantage: number | null;
}

/** The place of a trajectory in its job or log. */
export interface TrajectoryPlace {
  groupIndex: number;
  trajectoryIndex: number;
}

/** The tokens of a trajectory in a gradient step, as whoever trains wrote them. */
export interface NewTokenTrace extends TrajectoryPlace {
  trace: Uint8Array;
}

/** The record of one rollout, without what it says. */
export interface TrajectorySummary extends TrajectoryPlace {
  /** Made of the job or log and the place in it. */
  id: string;
  modelId: string;
  /** The job that was given it; null of a log. */
  jobId: string | null;
  /** The log that it is of; null of a job. */
  logId: string | null;
  /** `train` of a job. */
  split: string;
  /** Step of the model that was the latest when it was sampled: of a job the one that it starts from. */
  step: number;
  /** One too large for a number is the largest. */
  reward: number;
  /** Null of a log, and before the job has begun. */
  outcome: string | null;
  advantage: number | null;
  /** Digest of the messages before its first reply, and its tools; null where there are none, and of trajectories from before there were digests. */
  promptDigest: string | null;
}

export interface TrajectoryQuery extends OrderedPageQuery {
  modelId: string;
  jobId?: string;
  logId?: string;
  split?: string;
  step?: number;
  /** With a job or a log: of this group. */
  groupIndex?: number;
  outcome?: string;
  promptDigest?: string;
  /** Default: in the order in which they came. */
  sort?: 'position' | 'reward';
}

/** A trajectory, and where its words are. */
export interface TrajectoryRecord extends TrajectorySummary {
  entityId: string;
  /** The blob of its job or log; null when that is gone. */
  blobKey: string | null;
}

export interface TokenTrace {
  /** Number of the step in its job, 0-based. */
  gradientStep: number;
  trace: Uint8Array;
}
