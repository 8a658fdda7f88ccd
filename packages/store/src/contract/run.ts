// What is remembered of how a model learns, and of what happens in the service. Times are milliseconds since the epoch.

/** A metric of a run. */
export interface MetricSeries {
  /** E.g. `train/loss`, `val/reward`. */
  name: string;
  numPoints: number;
  /** The latest value, with the step that it is of. */
  last: { value: number; step: number };
}

/** The kept checkpoint with the highest value of a metric, the earliest of equal ones. */
export interface BestCheckpoint {
  step: number;
  metric: string;
  /** Mean of the metric's points at that step. */
  value: number;
}

/** Metrics that tell which checkpoint is the best: the first of them that any kept checkpoint has. */
export const BEST_BY: readonly string[] = ['val/reward', 'train/reward'];

/** How the points of a series are counted: by the steps of the model, or its gradient steps. */
export type SeriesAxis = 'step' | 'gradient_step';

/**
 * One point, or several neighbours as one where there are more than were asked for. By steps the points of one step are one, whatever there are of
 * them.
 */
export interface SeriesPoint {
  /** Place on the axis of the first and of the last of them. */
  first: number;
  last: number;
  mean: number;
  min: number;
  max: number;
  /** How many values went in. */
  count: number;
  /** When the last of them was recorded. */
  recordedAt: number;
}

export interface Series {
  name: string;
  /** Places on the axis that there are, before they were made fewer. */
  numPlaces: number;
  points: SeriesPoint[];
}

export interface SeriesQuery {
  modelId: string;
  /** Unknown ones have no points. */
  names: readonly string[];
  axis: SeriesAxis;
  /** Most points of each series, 1..10,000. */
  maxPoints: number;
  /** Places on the axis, both inclusive; default: all. */
  from?: number;
  to?: number;
}

/** Whatever happens besides the events of jobs, which are told under their own types. */
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

/** Something that happened, in the order of all that did. */
export interface FeedItem {
  /** Only grows; what is committed later has a larger one. */
  position: number;
  entityId: string;
  type: FeedType | (string & {});
  modelId: string | null;
  jobId: string | null;
  /** The payload exactly as clients read it (wire names). */
  data: Record<string, unknown>;
  createdAt: number;
}

export interface FeedQuery {
  /** Default: of all. */
  entityId?: string;
  /** Position of the last item already seen; default: from the oldest that is kept, or from the newest. */
  after?: number;
  /** 1..1000, default 100. */
  limit?: number;
  modelId?: string;
  /** Default `asc`: the oldest first. */
  order?: 'asc' | 'desc';
}

/** A run as a tracker outside has it. */
export interface TrackedRunRecord {
  /** Its id there. */
  id: string;
  /** Where people look at it. */
  url: string | null;
  /** Gradient steps of the model that were told. */
  numGradientSteps: number;
}
