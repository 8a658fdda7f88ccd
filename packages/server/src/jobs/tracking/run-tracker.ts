/** A model's run, for a tracker that does not have it yet. */
export interface TrackedRun {
  /** Names it here, for good: a tracker finds by it what it made before. */
  readonly runId: string;
  readonly entity: string;
  readonly project: string;
  readonly name: string;
  readonly createdAt: number;
  /** Facts that do not change: base model, shape of the adapter. */
  readonly parameters: Readonly<Record<string, string>>;
}

/** Measures of one moment. */
export interface TrackedPoint {
  /** Milliseconds since the epoch. */
  readonly time: number;
  /** Gradient steps of the model before it. */
  readonly step: number;
  readonly metrics: Readonly<Record<string, number>>;
}

/** A run as the tracker calls it. */
export interface RunReference {
  readonly id: string;
  /** Where people look at it; null when the tracker does not say. */
  readonly url: string | null;
}

/**
 * A place outside where runs are told too. The store has every run whatever becomes of it, and what a tracker could not take is told again later:
 * a tracker never fails a job, and may be told the same twice.
 */
export interface RunTracker {
  /** E.g. `mlflow`: the name under which the store remembers how far it was told. */
  readonly name: string;
  /** Makes a run, or finds the one that it made before for this `runId`. @throws {TrackerError} */
  begin(run: TrackedRun, signal: AbortSignal): Promise<RunReference>;
  /** Adds points; one that is there already changes nothing. @throws {TrackerError} `gone` when there is no such run, or it was deleted */
  log(id: string, points: readonly TrackedPoint[], signal: AbortSignal): Promise<void>;
  /** Also when it was deleted before, or never was. @throws {TrackerError} */
  delete(id: string, signal: AbortSignal): Promise<void>;
  /** Whether it can be used. @throws {TrackerError} with what to do about it */
  check(signal: AbortSignal): Promise<void>;
}

/** `unreachable`: nobody answers. `refused`: it answers that it does not want to. `gone`: the run is not there any more. */
export type TrackerErrorCode = 'unreachable' | 'refused' | 'gone';

/** Why a tracker did not do what it was asked for, in words for who runs the service, without its address. */
export class TrackerError extends Error {
  override readonly name = 'TrackerError';
  readonly code: TrackerErrorCode;

  constructor(code: TrackerErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
