/** A model's run, for a tracker that does not have it yet. */
export interface TrackedRun {
  /** Permanent id: the tracker finds the run it created by this id. */
  readonly runId: string;
  readonly entity: string;
  readonly project: string;
  readonly name: string;
  readonly createdAt: number;
  /** Constant facts: base model, shape of the adapter. */
  readonly parameters: Readonly<Record<string, string>>;
}

/** Metrics of one moment. */
export interface TrackedPoint {
  /** Milliseconds since the epoch. */
  readonly time: number;
  /** Gradient steps of the model before it. */
  readonly step: number;
  readonly metrics: Readonly<Record<string, number>>;
}

/** A run's id in the tracker. */
export interface RunReference {
  readonly id: string;
  /** Page of the run; null if the tracker does not report one. */
  readonly url: string | null;
}

/**
 * An external service that receives runs, too. The store has every run, and refused items are sent again
 * later: a tracker never fails a job, and may receive an item twice.
 */
export interface RunTracker {
  /** Name such as `mlflow`: key of the tracker's position in the store. */
  readonly name: string;
  /** Creates a run, or finds the one it created for this `runId`. @throws {TrackerError} */
  begin(run: TrackedRun, signal: AbortSignal): Promise<RunReference>;
  /**
   * Adds points; existing ones are unchanged.
   * @throws {TrackerError} `gone` if the run does not exist or was deleted
   */
  log(id: string, points: readonly TrackedPoint[], signal: AbortSignal): Promise<void>;
  /** Succeeds also if the run was deleted before, or never existed. @throws {TrackerError} */
  delete(id: string, signal: AbortSignal): Promise<void>;
  /** Checks that it can be used. @throws {TrackerError} with a remedy */
  check(signal: AbortSignal): Promise<void>;
}

/** `unreachable`: no answer. `refused`: it answered with a refusal. `gone`: the run does not exist any more. */
export type TrackerErrorCode = 'unreachable' | 'refused' | 'gone';

/** Failure of a tracker, with a message for the operator, without its address. */
export class TrackerError extends Error {
  override readonly name = 'TrackerError';
  readonly code: TrackerErrorCode;

  constructor(code: TrackerErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
