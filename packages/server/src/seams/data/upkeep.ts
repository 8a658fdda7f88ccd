import {
  type Blobs,
  type OrphanRules,
  type Store,
  sweepOrphans,
  type SweepReport,
  type Trajectories,
  type UsageRecords,
} from '@trainyard/store';

import { ClockWatch, type ClockWatchOptions } from './clock-watch.ts';

/** Often enough to keep expired data small, and seldom enough not to disturb requests. */
const EVERY_MS = 10 * 60_000;
/** Time between two rounds over the checkpoints of models in training. */
const RECENT_EVERY_MS = 60_000;
/** Each sweep lists all blobs. */
const SWEEP_EVERY_MS = 6 * 3_600_000;
const DAY_MS = 24 * 3_600_000;
/** Usage of the last day stays exact to the millisecond. */
const USAGE_MERGED_AFTER_MS = DAY_MS;
/** Maximum rows per transaction: a few milliseconds, so that requests get their turn in between. */
const TRAJECTORY_ROWS = 500;
const USAGE_ROWS = 2_000;

export interface UpkeepOptions {
  readonly store: Pick<Store, 'purgeExpired'> &
    Parameters<typeof sweepOrphans>[0] & {
      readonly clock: ClockWatchOptions['clock'];
      readonly trajectories: Pick<Trajectories, 'expire' | 'countData'>;
      readonly usage: Pick<UsageRecords, 'merge'>;
    };
  readonly blobs: Blobs;
  /** retention of ended jobs' data and logged trajectories, days; 0: for ever */
  readonly trajectoryDays: number;
  readonly orphans: OrphanRules;
  /** Removes checkpoints by the policy. Default: none are removed. */
  readonly keeper?: Keeper;
  readonly trustsClock: boolean;
  /** Default `performance.now`. */
  readonly monotonic?: () => number;
  readonly log: (line: string) => void;
}

export interface Keeper {
  readonly round: (shouldStop: () => boolean) => Promise<void>;
  readonly recentRound: (shouldStop: () => boolean) => Promise<void>;
}

export function orphanRules(config: {
  readonly removeOrphans: OrphanRules['which'];
  readonly orphanDays: number;
  readonly binDays: number;
  readonly orphanShare: number;
}): OrphanRules {
  return {
    which: config.removeOrphans,
    ageMs: config.orphanDays * DAY_MS,
    binMs: config.binDays * DAY_MS,
    share: config.orphanShare,
  };
}

/**
 * Removes expired data and merges old data, at the start and every ten minutes. Waits while the clock cannot
 * be trusted.
 */
export class Upkeep {
  readonly #options: UpkeepOptions;
  readonly #clock: ClockWatch;
  readonly #monotonic: () => number;
  #timer: NodeJS.Timeout | null = null;
  #recentTimer: NodeJS.Timeout | null = null;
  #isStopping = false;
  #running: Promise<void> = Promise.resolve();
  #sweptAt = -Infinity;
  #blobNotice: string | null = null;

  constructor(options: UpkeepOptions) {
    this.#options = options;
    this.#monotonic = options.monotonic ?? (() => performance.now());
    const { store, trustsClock, log } = options;
    this.#clock = new ClockWatch({ clock: store.clock, isTrusted: trustsClock, monotonic: this.#monotonic, log });
  }

  get notices(): string[] {
    return [this.#clock.notice, this.#blobNotice].filter((notice) => notice !== null);
  }

  start(): void {
    if (this.#timer !== null) return;
    this.#timer = setInterval(() => void this.round(), EVERY_MS).unref();
    const { keeper } = this.#options;
    if (keeper !== undefined)
      this.#recentTimer = setInterval(() => void this.#recentRound(keeper), RECENT_EVERY_MS).unref();
    void this.round();
  }

  /** Resolves when no round runs any more. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    for (const timer of [this.#timer, this.#recentTimer]) if (timer !== null) clearInterval(timer);
    await this.settled();
  }

  /**
   * Runs one round after those in progress. Resolves when it is done; failed removals are retried in the next
   * round.
   */
  round(): Promise<void> {
    this.#running = this.#running.then(() => this.#round());
    return this.#running;
  }

  async settled(): Promise<void> {
    await this.#running;
  }

  /** Waits while the clock is not trusted. Upkeep has read it at most ten minutes ago. */
  async #recentRound(keeper: Keeper): Promise<void> {
    if (this.#clock.notice !== null) return;
    const round = async () => await this.#attempt('checkpoints stay', () => keeper.recentRound(() => this.#isStopping));
    this.#running = this.#running.then(round);
    await this.#running;
  }

  async #attempt(what: string, work: () => Promise<unknown>): Promise<void> {
    if (this.#isStopping) return;
    try {
      await work();
    } catch (error) {
      this.#options.log(`${what} for now: ${(error as Error).message}`);
    }
  }

  async #round(): Promise<void> {
    const { store, trajectoryDays, keeper } = this.#options;
    const attempt = (what: string, work: () => Promise<unknown>) => this.#attempt(what, work);
    let now: number | null = null;
    await attempt('old data is kept', async () => (now = await this.#clock.read()));
    if (now === null) return;
    const at: number = now;
    await attempt('expired data is kept', () => store.purgeExpired(at));
    if (trajectoryDays > 0) await attempt('old trajectories are kept', () => this.#expireTrajectories(at));
    await attempt('usage is not summed up', () => this.#mergeUsage(at));
    if (keeper !== undefined) await attempt('checkpoints stay', () => keeper.round(() => this.#isStopping));
    if (this.#monotonic() - this.#sweptAt >= SWEEP_EVERY_MS) await attempt('orphans stay', () => this.#sweep());
  }

  /** Removes the oldest first, and at most the daily share of all data: a backlog takes several days. */
  async #expireTrajectories(now: number): Promise<void> {
    const { store, blobs, trajectoryDays, orphans, log } = this.#options;
    const before = now - trajectoryDays * DAY_MS;
    await this.#inParts(async () => {
      const { numKept, numRemoved } = await store.trajectories.countData(now - DAY_MS);
      const left = Math.ceil(orphans.share * (numKept + numRemoved)) - numRemoved;
      if (left <= 0) return false;
      // Rows go first: a crash in between leaves only orphans.
      const { numJobs, numLogs, blobKeys } = await store.trajectories.expire(before, Math.min(left, TRAJECTORY_ROWS));
      for (const key of blobKeys) {
        await blobs
          .discard({ kind: 'blob', key }, now)
          .catch((error: unknown) => log(`${key} is left as an orphan: ${String(error)}`));
      }
      if (numJobs + numLogs === 0) return false;
      log(
        `moved the data of ${numJobs} ended jobs and ${numLogs} logs older than ${trajectoryDays} days to the bin (--trajectory-days)`,
      );
      return true;
    });
  }

  async #mergeUsage(now: number): Promise<void> {
    const before = now - USAGE_MERGED_AFTER_MS;
    await this.#inParts(async () => (await this.#options.store.usage.merge(before, USAGE_ROWS)) > 0);
  }

  async #sweep(): Promise<void> {
    const { store, blobs, orphans, log } = this.#options;
    const notice = noticeOf(await sweepOrphans(store, blobs, orphans, log));
    this.#sweptAt = this.#monotonic();
    if (notice !== null && notice !== this.#blobNotice) log(notice);
    this.#blobNotice = notice;
  }

  /** Repeats until nothing is left or the service stops; requests run between the parts. */
  async #inParts(part: () => Promise<boolean>): Promise<void> {
    while (!this.#isStopping && (await part())) await new Promise((resolve) => setImmediate(resolve));
  }
}

function noticeOf({ withheld, unknown, numBlobs }: SweepReport): string | null {
  const parts = withheld === null ? [] : [withheld];
  if (unknown.length > 0)
    parts.push(
      `This database does not know ${unknown.length} of ${numBlobs} blobs; they are kept. If the database was restored from a backup, ` +
        'start with `--adopt-blobs` to add newer checkpoints; `trainyard doctor` lists the blobs.',
    );
  return parts.length === 0 ? null : parts.join(' ');
}
