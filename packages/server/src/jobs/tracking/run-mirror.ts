import { mixesSamplers } from '@trainyard/protocol/fields';
import { type FeedItem, type Model, type Store, StoreError } from '@trainyard/store';

import { heldOutMetrics } from '../job-events.ts';
import { type RunReference, type RunTracker, type TrackedPoint, TrackerError } from './run-tracker.ts';

/** Delay until a tracker gets an item. */
const POLL_MS = 1_000;
/** Maximum time between two tries. */
const MAX_PAUSE_MS = 60_000;
/** Maximum time of one call: a hanging tracker counts as not answering. */
const CALL_MS = 10_000;
/** Maximum time that the deletion of a model waits. */
const FORGET_MS = 5_000;
const ITEMS_AT_A_TIME = 200;
const MAX_PENDING = 1_000;

export interface MirroredRun extends RunReference {
  readonly tracker: string;
}

export interface RunTracking {
  /** Name such as `mlflow`. */
  readonly name: string;
  /** Null while the tracker does not have it. */
  find(modelId: string): Promise<MirroredRun | null>;
  /**
   * Deletes the run of a model that is about to be deleted.
   * @returns true if the tracker has none now; otherwise it is retried later
   */
  forget(modelId: string): Promise<boolean>;
  /** Reason why it does not work as it should; null if it works. */
  problem(): string | null;
}

export interface RunMirrorOptions {
  readonly store: Store;
  readonly tracker: RunTracker;
  readonly log: (line: string) => void;
  /** default 1000 */
  readonly pollMs?: number;
}

/**
 * Sends the store's feed of runs to a tracker, in order and at least once: its position is in the store.
 * Nothing waits for it, and a tracker that does not answer affects nothing else.
 */
export class RunMirror implements RunTracking {
  readonly name: string;
  readonly #options: RunMirrorOptions;
  readonly #stopping = new AbortController();
  #timer: NodeJS.Timeout | null = null;
  #turn: Promise<void> = Promise.resolve();
  #problem: string | null = null;
  #numFailures = 0;
  #isChecked = false;

  constructor(options: RunMirrorOptions) {
    this.#options = options;
    this.name = options.tracker.name;
  }

  /**
   * Checks the tracker at once, so that a wrong address appears in the log of the start, which does not wait
   * for the check.
   */
  start(): void {
    this.#later(0);
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    if (this.#timer !== null) clearTimeout(this.#timer);
    await this.#turn;
  }

  problem(): string | null {
    return this.#problem;
  }

  async find(modelId: string): Promise<MirroredRun | null> {
    const run = await this.#options.store.runs.getTracked(this.name, modelId);
    return run === null ? null : { tracker: this.name, id: run.id, url: run.url };
  }

  async forget(modelId: string): Promise<boolean> {
    const { store, tracker, log } = this.#options;
    try {
      const run = await store.runs.getTracked(this.name, modelId);
      if (run !== null) await tracker.delete(run.id, AbortSignal.timeout(FORGET_MS));
      return true;
    } catch (error) {
      log(`the run of model ${modelId} will be deleted later: ${wordsOf(error)}`);
      return false;
    }
  }

  #later(ms: number): void {
    if (this.#stopping.signal.aborted) return;
    this.#timer = setTimeout(() => {
      this.#turn = this.#run();
    }, ms);
  }

  async #run(): Promise<void> {
    const { pollMs = POLL_MS, log } = this.#options;
    try {
      if (!this.#isChecked) await this.#check();
      while (await this.reportNext()) if (this.#stopping.signal.aborted) return;
      this.#numFailures = 0;
      this.#problem = null;
      this.#later(pollMs);
    } catch (error) {
      if (this.#stopping.signal.aborted) return;
      const words = wordsOf(error);
      if (this.#problem !== words) log(`tracker ${this.name}: ${words}; missing data will be sent later`);
      this.#problem = words;
      this.#numFailures += 1;
      this.#later(Math.min(pollMs * 2 ** this.#numFailures, MAX_PAUSE_MS));
    }
  }

  /**
   * First records the position, so that events from now on are sent, whenever the tracker is available.
   * @throws {TrackerError}
   */
  async #check(): Promise<void> {
    await this.#position();
    await this.#options.tracker.check(this.#signal());
    this.#isChecked = true;
    this.#options.log(`tracker ${this.name}: accepts runs`);
  }

  async #position(): Promise<number> {
    const { store } = this.#options;
    const known = await store.runs.trackerPosition(this.name);
    if (known !== null) return known;
    const now = await store.feed.lastPosition();
    await store.runs.advanceTracker(this.name, now, new Map());
    return now;
  }

  /** Sends the next items. @returns true if there may be more. @throws {TrackerError} nothing is lost */
  async reportNext(): Promise<boolean> {
    const { store } = this.#options;
    const after = await this.#position();
    const items = await store.feed.list({ after, limit: ITEMS_AT_A_TIME });
    const last = items.at(-1);
    if (last === undefined) return false;
    const counts = new Map<string, number>();
    for (const [modelId, own] of Map.groupBy(items, (item) => item.modelId)) {
      if (modelId === null) continue;
      const count = await this.#send(modelId, own, after);
      if (count !== null) counts.set(modelId, count);
    }
    await store.runs.advanceTracker(this.name, last.position, counts);
    return items.length === ITEMS_AT_A_TIME;
  }

  /** @returns the gradient steps of the model that the tracker has now; null if the model is gone */
  async #send(modelId: string, items: readonly FeedItem[], after: number): Promise<number | null> {
    const { store, tracker } = this.#options;
    if (items.some(({ type }) => type === 'model_deleted')) {
      const run = await store.runs.getTracked(this.name, modelId);
      if (run !== null) await tracker.delete(run.id, this.#signal());
      await store.runs.setTracked(this.name, modelId, null);
      return null;
    }
    const model = await store.models.get(modelId);
    if (model === null) return null; // its deletion comes later in the feed
    const known = (await store.runs.getTracked(this.name, modelId)) ?? (await this.#begin(model, after));
    let numGradientSteps = known.numGradientSteps;
    const points: TrackedPoint[] = [];
    for (const item of items) {
      const metrics = metricsOf(item);
      if (metrics === null) continue;
      points.push({ time: item.createdAt, step: numGradientSteps, metrics });
      if (item.type === 'gradient_step') numGradientSteps += 1;
    }
    try {
      if (points.length > 0) await tracker.log(known.id, points, this.#signal());
    } catch (error) {
      if (!(error instanceof TrackerError) || error.code !== 'gone') throw error;
      // The run was deleted there: the model continues in a new run.
      const anew = await this.#begin(model, after);
      await tracker.log(anew.id, points, this.#signal());
    }
    return numGradientSteps;
  }

  async #begin(model: Model, after: number): Promise<RunReference & { numGradientSteps: number }> {
    const { store, tracker } = this.#options;
    const { runId, entity, project, name, createdAt, baseModel, lora } = model;
    const parameters = { base_model: baseModel, lora_rank: String(lora.rank), lora_alpha: String(lora.alpha) };
    const run = await tracker.begin({ runId, entity, project, name, createdAt, parameters }, this.#signal());
    const pending = await store.feed.list({ after, modelId: model.id, limit: MAX_PENDING });
    const numPending = pending.filter(({ type }) => type === 'gradient_step').length;
    const numGradientSteps = Math.max(0, model.numGradientSteps - numPending);
    await store.runs.setTracked(this.name, model.id, { ...run, numGradientSteps });
    return { ...run, numGradientSteps };
  }

  #signal(): AbortSignal {
    return AbortSignal.any([AbortSignal.timeout(CALL_MS), this.#stopping.signal]);
  }
}

/** Null for an item without metrics. */
function metricsOf({ type, data }: FeedItem): Record<string, number> | null {
  if (type === 'gradient_step') return withoutMixed(numbersOf(data, 'train/'));
  if (type === 'held_out' && typeof data['loss'] === 'number') return heldOutMetrics({ loss: data['loss'] });
  return type === 'log_recorded' ? numbersOf(data['metrics'] ?? {}, '') : null;
}

/** Keeps `train/fresh/…` and `train/updated/…` of the comparisons with the sampler. */
function withoutMixed(metrics: Record<string, number>): Record<string, number> {
  return Object.fromEntries(Object.entries(metrics).filter(([name]) => !mixesSamplers(name.slice('train/'.length))));
}

function numbersOf(values: object, prefix: string): Record<string, number> {
  const numbers = Object.entries(values).filter((entry): entry is [string, number] => typeof entry[1] === 'number');
  return Object.fromEntries(numbers.map(([name, value]) => [`${prefix}${name}`, value]));
}

function wordsOf(error: unknown): string {
  if (error instanceof TrackerError) return error.message;
  return error instanceof StoreError ? 'the store is busy' : `it failed: ${String(error)}`;
}
