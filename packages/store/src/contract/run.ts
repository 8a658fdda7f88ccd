// Records of a model's training and of events in the service. Times are milliseconds since the epoch.

export interface MetricSeries {
  /** E.g. `train/loss`, `val/reward`. */
  name: string;
  numPoints: number;
  last: { value: number; step: number };
}

/** The kept checkpoint with the highest value of a metric, the earliest of equal ones. */
export interface BestCheckpoint {
  step: number;
  metric: string;
  /** Mean of the metric's points at that step. */
  value: number;
}

/** Metrics that decide the best checkpoint: the first that any kept checkpoint has. */
export const BEST_BY: readonly string[] = ['val/reward', 'train/reward'];

/** X axis of a series: steps of the model, or its gradient steps. */
export type SeriesAxis = 'step' | 'gradient_step';

/**
 * One point, or several neighbours merged because there are more than requested. On the axis of steps, all
 * points of a step are one.
 */
export interface SeriesPoint {
  /** Places of the first and last merged point on the axis. */
  first: number;
  last: number;
  mean: number;
  min: number;
  max: number;
  count: number;
  /** Time of the last recorded value. */
  recordedAt: number;
}

export interface Series {
  name: string;
  /** Number of places on the axis before merging. */
  numPlaces: number;
  points: SeriesPoint[];
}

export interface SeriesQuery {
  modelId: string;
  /** Names of series; unknown ones have no points. */
  names: readonly string[];
  axis: SeriesAxis;
  /** Maximum points per series, 1..10,000. */
  maxPoints: number;
  /** Places on the axis, both inclusive; default: all. */
  from?: number;
  to?: number;
}

/** Types of events other than those of jobs, which keep their own types. */
export type FeedType =
  | 'model_created'
  | 'model_deleted'
  | 'checkpoint_created'
  | 'checkpoints_deleted'
  | 'log_recorded'
  | 'job_queued'
  | 'job_started'
  | 'job_paused'
  | 'job_resumed';

/** An event, in the order of all events. */
export interface FeedItem {
  /** Only grows: a later commit has a larger one. */
  position: number;
  entityId: string;
  type: FeedType | (string & {});
  modelId: string | null;
  jobId: string | null;
  /** Payload as clients read it (wire names). */
  data: Record<string, unknown>;
  createdAt: number;
}

export interface FeedQuery {
  /** Default: all entities. */
  entityId?: string;
  /** Position of the last item already seen; default: start at the oldest kept, or at the newest. */
  after?: number;
  /** 1..1000, default 100. */
  limit?: number;
  modelId?: string;
  /** Default `asc`: the oldest first. */
  order?: 'asc' | 'desc';
}

/** A run in an external tracker. */
export interface TrackedRunRecord {
  /** Id in the tracker. */
  id: string;
  /** Page of the run, for people. */
  url: string | null;
  /** Number of the model's gradient steps already reported. */
  numGradientSteps: number;
}
