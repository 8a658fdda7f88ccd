import type { OrderedPageQuery, Page } from '../../contract/page.ts';
import type { IdempotentAnswer } from '../idempotency/idempotency.ts';
import type { Metrics } from '../runs/runs.ts';

/** Trajectories of jobs and of trajectory logs. Their content is in blobs. */
export interface Trajectories {
  /** Trajectories of jobs and logs. @throws {StoreError} `store.cursor_unknown` */
  list(query: TrajectoryQuery): Promise<Page<TrajectorySummary>>;
  /** Returns null if unknown. */
  get(trajectoryId: string): Promise<TrajectoryRecord | null>;
  /** Traces of its trained tokens, one per gradient step that contained it; empty if none were kept. */
  listTraces(trajectoryId: string): Promise<TokenTrace[]>;
  /**
   * Stores the log, adds its metrics to the run, and puts them on the latest checkpoint, replacing those of
   * its last log of that split. Null if the model is unknown.
   */
  recordLog(input: NewLog): Promise<TrajectoryLog | null>;
  /** Logs in order of recording. */
  listLogs(query: OrderedPageQuery & { modelId: string; split?: string }): Promise<Page<TrajectoryLog>>;
  /**
   * Marks as removed the data of up to `limit` jobs that ended and logs that were recorded before that time;
   * their rows stay. The caller then moves `blobKeys` to the bin. No row names them any more, so a crash
   * leaves orphans.
   *
   * @returns empty once nothing is that old
   */
  expire(before: number, limit: number): Promise<ExpiredTrajectories>;
  /**
   * Jobs and logs with outdated or expired contents, newest first: recorded by an earlier release, or without
   * contents.
   */
  listOutdatedContents(limit: number): Promise<OutdatedContents[]>;
  /**
   * Replaces the contents of consecutive groups of an outdated set.
   * @returns false if the set is not outdated any more: another process computed it, or its data expired
   */
  replaceContents(setId: string, firstGroup: number, contents: GroupContents): Promise<boolean>;
  /** Ends an outdated set: `kept` after its last group was replaced, `removed` if its data are gone. */
  settleContents(setId: string, end: 'kept' | 'removed'): Promise<void>;
  /** Counts jobs and logs that have their data, and those whose data were removed since that time. */
  countData(removedSince: number): Promise<{ numKept: number; numRemoved: number }>;
}

/** Rewards of the trajectories of each group, in the order received. */
export type GroupRewards = readonly (readonly number[])[];

/** Facts of a trajectory's content, stored with its row. Texts are removed with the data of its job or log. */
export interface TrajectoryContents {
  /**
   * Digest of the messages before its first sampled choice, and of its tools; null if there are none, and for
   * trajectories whose data were removed before it was computed.
   */
  promptDigest: string | null;
  /** Start of the last user message of its prompt; null without one, and once the data are removed. */
  question: string | null;
  /** Start of its last reply; null as above. */
  reply: string | null;
  /** Number of its sampled replies; null if unknown. */
  numTurns: number | null;
  /** Number of its sampled tokens; null if unknown. */
  numTokens: number | null;
  /** Reason that its last reply ended; null if unknown. */
  finishReason: string | null;
  /** Its own metrics. */
  metrics: Metrics;
}

/** Contents of the same trajectories. */
export type GroupContents = readonly (readonly TrajectoryContents[])[];

/** A job or log with outdated contents. */
export interface OutdatedContents {
  /** Id of the job or log. */
  setId: string;
  /** Blob of its groups; null if it was removed: then the contents are removed too. */
  blobKey: string | null;
}

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
export interface TrajectorySummary extends TrajectoryPlace, TrajectoryContents {
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
  /** Time when its job or log was recorded. */
  createdAt: number;
}

/** Order of trajectories; equal ones are in the order of arrival. Unknown numbers come first. */
export type TrajectorySort = 'position' | 'reward' | 'num_tokens' | 'num_turns';

export interface TrajectoryQuery extends OrderedPageQuery {
  modelId: string;
  jobId?: string;
  logId?: string;
  split?: string;
  step?: number;
  groupIndex?: number;
  outcome?: string;
  promptDigest?: string;
  /** Both inclusive. */
  minReward?: number;
  maxReward?: number;
  finishReason?: string;
  /** Default: in order of arrival. */
  sort?: TrajectorySort;
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

export interface LogCounts {
  numGroups: number;
  numTrajectories: number;
  numExceptions: number;
}

/** One logged set of trajectories; the bodies are in the blob `blobKey`. */
export interface TrajectoryLog extends LogCounts {
  id: string;
  modelId: string;
  /** Step of the latest checkpoint at that time; null if there was none. */
  step: number | null;
  split: string;
  blobKey: string;
  metrics: Metrics;
  createdAt: number;
  /** Time when the trajectories were removed; null while the blob exists. */
  dataRemovedAt: number | null;
}

export interface NewLog extends LogCounts {
  modelId: string;
  split: string;
  blobKey: string;
  /** Full names, e.g. `val/reward`. */
  metrics: Metrics;
  /** Rewards of its trajectories; default: none to list. */
  rewards?: GroupRewards;
  /** Contents of the same trajectories; default: computed later from the blob. */
  contents?: GroupContents;
  completes?: IdempotentAnswer;
}

export interface ExpiredTrajectories {
  numJobs: number;
  numLogs: number;
  blobKeys: string[];
}
