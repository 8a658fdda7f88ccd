/** Metrics of models' training, and their runs in external trackers. */
export interface Runs {
  /** Series by name; empty for an unknown model. */
  listSeries(modelId: string): Promise<MetricSeries[]>;
  /** Series in the order of the names, each reduced to at most the requested number of points. */
  readSeries(query: SeriesQuery): Promise<Series[]>;
  /** Best kept checkpoint by {@link BEST_BY}; null for an unknown model, or if no checkpoint has a value. */
  bestCheckpoint(modelId: string): Promise<BestCheckpoint | null>;
  /** Feed position up to which a tracker is informed; null if it never was. */
  trackerPosition(tracker: string): Promise<number | null>;
  /** Writes in one transaction: the position, and the number of reported gradient steps per model. */
  advanceTracker(tracker: string, position: number, gradientSteps: ReadonlyMap<string, number>): Promise<void>;
  /** Returns the run, also of deleted models, for a week. */
  getTracked(tracker: string, modelId: string): Promise<TrackedRunRecord | null>;
  /** @param run null if it has none any more */
  setTracked(tracker: string, modelId: string, run: TrackedRunRecord | null): Promise<void>;
}

export type Metrics = Record<string, number>;

export interface MetricSeries {
  /** E.g. `train/loss`, `val/reward`. */
  name: string;
  /** Includes those of jobs that failed or were cancelled. */
  numPoints: number;
  /** Without such jobs. */
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
  /** Values of jobs that failed or were cancelled, in order, the last 1,000; no point contains them. */
  discarded: { place: number; value: number; jobId: string }[];
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

/** A run in an external tracker. */
export interface TrackedRunRecord {
  /** Id in the tracker. */
  id: string;
  /** Page of the run, for people. */
  url: string | null;
  /** Number of the model's gradient steps already reported. */
  numGradientSteps: number;
}
