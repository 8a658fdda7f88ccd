import {
  type RunReference,
  type RunTracker,
  type TrackedPoint,
  type TrackedRun,
  TrackerError,
} from '../jobs/tracking/run-tracker.ts';

interface ScriptedRun extends TrackedRun {
  readonly points: Map<string, TrackedPoint>;
  isDeleted: boolean;
}

/** A tracker in memory that fails on demand: the smallest that passes the suite. */
export class ScriptedTracker implements RunTracker {
  readonly name: string = 'scripted';
  /** Runs by their id in the service, in order of creation. */
  readonly runs = new Map<string, ScriptedRun>();
  /** Thrown by every call while set. */
  failure: Error | null = null;
  numCalls = 0;

  async begin(run: TrackedRun): Promise<RunReference> {
    this.#enter();
    for (const [id, { runId, isDeleted }] of this.runs) if (runId === run.runId && !isDeleted) return { id, url: null };
    const id = `run-${this.runs.size}`;
    this.runs.set(id, { ...run, points: new Map(), isDeleted: false });
    return { id, url: null };
  }

  async log(id: string, points: readonly TrackedPoint[]): Promise<void> {
    this.#enter();
    const run = this.runs.get(id);
    if (run === undefined || run.isDeleted) throw new TrackerError('gone', `there is no run ${id}`);
    for (const point of points) run.points.set(JSON.stringify(point), point);
  }

  async delete(id: string): Promise<void> {
    this.#enter();
    const run = this.runs.get(id);
    if (run !== undefined) run.isDeleted = true;
  }

  async check(): Promise<void> {
    this.#enter();
  }

  #enter(): void {
    this.numCalls += 1;
    if (this.failure !== null) throw this.failure;
  }
}
