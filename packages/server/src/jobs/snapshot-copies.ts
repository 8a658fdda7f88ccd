import { randomUUID } from 'node:crypto';

import { type Blobs, type ClaimedJob, snapshotsOf, type Store } from '@trainyard/store';

import { nameFile } from '../seams/data/remove-unless-named.ts';
import type { Log } from '../seams/logging/log.ts';

export interface SnapshotCopiesOptions {
  readonly store: Pick<Store, 'announceKey' | 'keepSnapshot' | 'isNamed'>;
  readonly blobs: Pick<Blobs, 'remove' | 'removeDirectory'>;
  readonly job: ClaimedJob;
  /** gradient steps between two copies; 0: none is made */
  readonly everySteps: number;
  /** Makes a directory of the newest snapshot. @returns gradient steps behind it; null when there is none yet */
  readonly copy: (directoryKey: string) => Promise<number | null>;
  readonly log: Log;
}

/**
 * Copies of a running job's snapshots in the blobs, for another machine to go on from. Training waits for none of it: one copy at a time is on its way,
 * and blobs that take none make the next one later. The row names one copy, and only steps that were told are behind it; the directory is committed
 * before, and the one before goes after.
 *
 * The key has the fencing token, and so has whoever writes the row: what a worker copied that has lost its job is never named, and is removed.
 */
export class SnapshotCopies {
  readonly #options: SnapshotCopiesOptions;
  /** Steps that the store has events of, and those behind the copy that it names. */
  #numTold = 0;
  #numCopied: number;
  #told = Promise.withResolvers<void>();
  #onItsWay: Promise<void> | null = null;
  #isFailing = false;
  #isOver = false;

  constructor(options: SnapshotCopiesOptions) {
    this.#options = options;
    this.#numCopied = options.job.snapshot?.numGradientSteps ?? 0;
  }

  /**
   * The event of a gradient step is in the store.
   * @param numSteps gradient steps that have one
   * @param isLast the job's version comes next, and no snapshot
   */
  stepTold(numSteps: number, isLast: boolean): void {
    this.#numTold = Math.max(this.#numTold, numSteps);
    this.#told.resolve();
    this.#told = Promise.withResolvers();
    this.#isOver ||= isLast;
    if (this.#isDue) void this.#copyNow();
  }

  /** The job is over here: what is on its way is of no use. */
  end(): void {
    this.#isOver = true;
    this.#told.resolve();
  }

  /** The job is about to be given back: copies what has come since the last copy. Settles after so long at most. */
  async last(withinMs: number): Promise<void> {
    if (this.#options.everySteps === 0) return;
    const over = Promise.withResolvers<void>();
    const timer = setTimeout(over.resolve, withinMs);
    const copied = (async () => {
      await this.#onItsWay;
      if (this.#numTold > this.#numCopied) await this.#copyNow();
    })();
    await Promise.race([copied, over.promise]);
    clearTimeout(timer);
  }

  /** One at a time. */
  #copyNow(): Promise<void> {
    this.#onItsWay ??= this.#copy().then((isCopied) => {
      this.#onItsWay = null;
      // Steps were told meanwhile. After a failure the next one tries again.
      if (isCopied && this.#isDue) void this.#copyNow();
    });
    return this.#onItsWay;
  }

  get #isDue(): boolean {
    const { everySteps } = this.#options;
    return everySteps > 0 && !this.#isOver && this.#numTold - this.#numCopied >= everySteps;
  }

  /** @returns whether one more is named now; never rejects */
  async #copy(): Promise<boolean> {
    const { store, blobs, job, copy, log } = this.#options;
    const directoryKey = `${snapshotsOf(job.id)}${job.fencingToken}-${randomUUID()}`;
    try {
      await store.announceKey(directoryKey);
      const numGradientSteps = await copy(directoryKey);
      if (numGradientSteps === null) return false;
      // Its last step may be on the way to the store still.
      while (this.#numTold < numGradientSteps && !this.#isOver) await this.#told.promise;
      if (this.#numTold < numGradientSteps) {
        await blobs.removeDirectory(directoryKey);
        return false;
      }
      const file = { key: directoryKey, kind: 'directory' } as const;
      const kept = await nameFile({ store, blobs, log }, file, () =>
        store.keepSnapshot(job.id, job.fencingToken, { directoryKey, numGradientSteps }),
      );
      this.#numCopied = numGradientSteps;
      if (this.#isFailing) log(`job ${job.id}: copying snapshots to the blobs works again`);
      this.#isFailing = false;
      // Null: it is named, though the store said otherwise. The one before is removed at the next start then.
      for (const key of kept?.replacedKeys ?? [])
        await blobs
          .removeDirectory(key)
          .catch((error: unknown) => log(`the directory ${key} is kept until the next start: ${String(error)}`));
      return true;
    } catch (error) {
      if (!this.#isFailing && !this.#isOver)
        log(`job ${job.id}: cannot copy a snapshot to the blobs for now: ${String(error)}`, { level: 'warn' });
      this.#isFailing = true;
      return false;
    }
  }
}
