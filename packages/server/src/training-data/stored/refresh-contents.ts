import { setImmediate as nextTurn } from 'node:timers/promises';

import type { WireTrajectoryGroup } from '@trainyard/protocol';
import {
  type Blobs,
  type OutdatedContents,
  StoreError,
  type Trajectories,
  type TrajectoryContents,
} from '@trainyard/store';

import { RecordLineReader } from '../choice-records/record-lines.ts';
import { trajectoryContents } from '../wire/trajectory-contents.ts';

/** Expired texts are hidden at once, and removed at this interval. */
const EVERY_MS = 10 * 60_000;
/** Trajectories per transaction: a few milliseconds, so that other writers get their turn. */
const ROWS_AT_ONCE = 500;
/** Processes choose among this number of jobs and logs, so that they seldom compute the same one. */
const NUM_CANDIDATES = 16;
/** Codes of data that stay unreadable. */
const PERMANENT: ReadonlySet<string> = new Set(['store.blob_missing', 'store.corrupt']);

export interface ContentRefreshOptions {
  readonly store: {
    readonly trajectories: Pick<Trajectories, 'listOutdatedContents' | 'replaceContents' | 'settleContents'>;
  };
  readonly blobs: Pick<Blobs, 'getJsonLines'>;
  readonly log: (line: string) => void;
}

/**
 * Computes the contents of trajectories that an earlier release stored, newest first, and removes those of
 * expired data. A job or log counts as done only after its last group, so an interrupted one is computed again.
 */
export class ContentRefresh {
  readonly #options: ContentRefreshOptions;
  /** Jobs and logs that could not be read; retried after a restart. */
  readonly #unreadable = new Set<string>();
  #timer: NodeJS.Timeout | null = null;
  #isStopping = false;
  #running: Promise<void> = Promise.resolve();

  constructor(options: ContentRefreshOptions) {
    this.#options = options;
  }

  start(): void {
    this.#timer ??= setInterval(() => void this.round(), EVERY_MS).unref();
    void this.round();
  }

  /** Resolves when no round runs any more. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    if (this.#timer !== null) clearInterval(this.#timer);
    await this.#running;
  }

  /** Works until nothing is outdated. Never rejects: what failed is tried in the next round. */
  round(): Promise<void> {
    this.#running = this.#running.then(() => this.#round());
    return this.#running;
  }

  async #round(): Promise<void> {
    const { store, log } = this.#options;
    let numDone = 0;
    try {
      for (;;) {
        const listed = await store.trajectories.listOutdatedContents(NUM_CANDIDATES + this.#unreadable.size);
        const outdated = listed.filter(({ setId, blobKey }) => blobKey === null || !this.#unreadable.has(setId));
        const chosen = outdated[Math.floor(Math.random() * Math.min(outdated.length, NUM_CANDIDATES))];
        if (chosen === undefined || this.#isStopping) break;
        if (await this.#refresh(chosen)) numDone += 1;
      }
    } catch (error) {
      log(`contents of older rollouts are outdated for now: ${(error as Error).message}`);
    }
    if (numDone > 0) log(`computed the contents of the rollouts of ${numDone} older jobs and logs`);
  }

  /** @returns true if it is done */
  async #refresh({ setId, blobKey }: OutdatedContents): Promise<boolean> {
    const { trajectories } = this.#options.store;
    if (blobKey === null) {
      await trajectories.settleContents(setId, 'removed');
      return false;
    }
    const parts = this.#contents(blobKey);
    try {
      for (;;) {
        const part = await this.#next(parts, setId);
        if (part === null || this.#isStopping) return false;
        if (part === 'end') break;
        if (!(await trajectories.replaceContents(setId, part.firstGroup, part.contents))) return false;
      }
    } finally {
      await parts.return();
    }
    await trajectories.settleContents(setId, 'kept');
    return true;
  }

  /** Null if the data are damaged or missing. @throws {StoreError} if they cannot be reached now */
  async #next(parts: AsyncGenerator<Part, void>, setId: string): Promise<Part | 'end' | null> {
    try {
      const next = await parts.next();
      return next.done === true ? 'end' : next.value;
    } catch (error) {
      if (error instanceof StoreError && !PERMANENT.has(error.code)) throw error;
      this.#unreadable.add(setId);
      this.#options.log(`the rollouts of ${setId} cannot be read: ${(error as Error).message}`);
      return null;
    }
  }

  async *#contents(blobKey: string): AsyncGenerator<Part, void> {
    const lengths = new Map<string, number>();
    const reader = new RecordLineReader();
    let firstGroup = 0;
    let contents: TrajectoryContents[][] = [];
    let numRows = 0;
    for await (const line of this.#options.blobs.getJsonLines(blobKey)) {
      const recorded = reader.read(line as object);
      if (recorded !== null) {
        const [id, record] = recorded;
        if (record.kind === 'sampled') lengths.set(id, record.tokenIds.length);
        continue;
      }
      const { trajectories } = line as WireTrajectoryGroup;
      contents.push(trajectories.map((trajectory) => trajectoryContents(trajectory, lengths)));
      numRows += trajectories.length;
      if (numRows >= ROWS_AT_ONCE) {
        yield { firstGroup, contents };
        firstGroup += contents.length;
        [contents, numRows] = [[], 0];
      }
      await nextTurn();
    }
    if (numRows > 0) yield { firstGroup, contents };
  }
}

interface Part {
  readonly firstGroup: number;
  readonly contents: readonly TrajectoryContents[][];
}
