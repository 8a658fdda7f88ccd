import type { Blobs, Store } from '@trainyard/store';

/** Often enough that what has expired takes little, seldom enough that nobody notices. */
const EVERY_MS = 10 * 60_000;
const DAY_MS = 24 * 3_600_000;
/** Whoever asks about the last day gets it to the millisecond. */
const USAGE_MERGED_AFTER_MS = DAY_MS;
/** Most rows of one transaction, so that requests get their turn in between: a few milliseconds' worth. */
const TRAJECTORY_ROWS = 500;
const USAGE_ROWS = 2_000;

export interface UpkeepOptions {
  readonly store: Pick<Store, 'now' | 'purgeExpired' | 'expireTrajectories' | 'mergeUsage'>;
  readonly blobs: Pick<Blobs, 'remove'>;
  /** how long the data of ended jobs and logged trajectories are kept, days; 0: for ever */
  readonly trajectoryDays: number;
  readonly log: (line: string) => void;
}

/** Removes what has expired, and merges what has grown old, at the start and every ten minutes for as long as the service runs. */
export class Upkeep {
  readonly #options: UpkeepOptions;
  #timer: NodeJS.Timeout | null = null;
  #isStopping = false;
  #running: Promise<void> = Promise.resolve();

  constructor(options: UpkeepOptions) {
    this.#options = options;
  }

  start(): void {
    if (this.#timer !== null) return;
    this.#timer = setInterval(() => void this.round(), EVERY_MS).unref();
    void this.round();
  }

  /** Settles when nothing of it runs any more. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    if (this.#timer !== null) clearInterval(this.#timer);
    await this.#running;
  }

  /** One time, after those that run. Settles when it is done; what fails stays until the next time. */
  round(): Promise<void> {
    this.#running = this.#running.then(() => this.#round());
    return this.#running;
  }

  async #round(): Promise<void> {
    const { store, trajectoryDays, log } = this.#options;
    const attempt = async (what: string, work: () => Promise<unknown>) => {
      if (this.#isStopping) return;
      try {
        await work();
      } catch (error) {
        log(`${what} for now: ${(error as Error).message}`);
      }
    };
    await attempt('what has expired stays', () => store.purgeExpired());
    if (trajectoryDays > 0) await attempt('old trajectories stay', () => this.#expireTrajectories());
    await attempt('usage stays as it is', () => this.#mergeUsage());
  }

  async #expireTrajectories(): Promise<void> {
    const { store, blobs, trajectoryDays, log } = this.#options;
    const before = store.now() - trajectoryDays * DAY_MS;
    await this.#inParts(async () => {
      // The rows first: a crash in between leaves files that no row names, which go at the next start.
      const { numJobs, numLogs, blobKeys } = await store.expireTrajectories(before, TRAJECTORY_ROWS);
      for (const key of blobKeys) {
        await blobs.remove(key).catch((error: unknown) => log(`${key} stays until the next start: ${String(error)}`));
      }
      if (numJobs + numLogs === 0) return false;
      log(
        `removed the data of ${numJobs} jobs that ended and ${numLogs} logs from more than ${trajectoryDays} days ago (--trajectory-days)`,
      );
      return true;
    });
  }

  async #mergeUsage(): Promise<void> {
    const before = this.#options.store.now() - USAGE_MERGED_AFTER_MS;
    await this.#inParts(async () => (await this.#options.store.mergeUsage(before, USAGE_ROWS)) > 0);
  }

  /** Until nothing is left, and no longer than the service runs; requests come between the parts. */
  async #inParts(part: () => Promise<boolean>): Promise<void> {
    while (!this.#isStopping && (await part())) await new Promise((resolve) => setImmediate(resolve));
  }
}
