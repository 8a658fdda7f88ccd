import { randomUUID } from 'node:crypto';

import { type Blobs, type ClaimedJob, snapshotsOf, type Store } from '@trainyard/store';

import { nameFile } from '../seams/data/remove-unless-named.ts';
import type { Log } from '../seams/logging/log.ts';

export interface SnapshotCopiesOptions {
  readonly store: Pick<Store, 'files' | 'jobs'>;
  readonly blobs: Pick<Blobs, 'remove' | 'removeDirectory'>;
  readonly job: ClaimedJob;
  /** gradient steps between two copies; 0: none */
  readonly everySteps: number;
  /** Copies the newest snapshot to a directory. @returns its gradient steps; null if there is none yet */
  readonly copy: (directoryKey: string) => Promise<number | null>;
  readonly log: Log;
}

/**
 * Copies of a running job's snapshots in the blobs, from which another machine can continue. Training does
 * not wait for them: one copy runs at a time. The row names one copy, which has only steps with a stored
 * event. The new directory is committed before the row names it; the previous one is removed afterwards. The
 * key has the fencing token, so copies of a worker that has lost its job are never named, and are removed.
 */
export class SnapshotCopies {
  readonly #options: SnapshotCopiesOptions;
  /** Steps with an event in the store, and steps of the copy that it names. */
  #numStored = 0;
  #numCopied: number;
  #stored = Promise.withResolvers<void>();
  #onItsWay: Promise<void> | null = null;
  #isFailing = false;
  #isOver = false;

  constructor(options: SnapshotCopiesOptions) {
    this.#options = options;
    this.#numCopied = options.job.snapshot?.numGradientSteps ?? 0;
  }

  /**
   * Called when the event of a gradient step is in the store.
   * @param numSteps gradient steps with an event
   * @param isLast the job's version comes next, without a snapshot
   */
  stepStored(numSteps: number, isLast: boolean): void {
    this.#numStored = Math.max(this.#numStored, numSteps);
    this.#stored.resolve();
    this.#stored = Promise.withResolvers();
    this.#isOver ||= isLast;
    if (this.#isDue) void this.#copyNow();
  }

  /** Called when the job is over here: a copy in progress is useless. */
  end(): void {
    this.#isOver = true;
    this.#stored.resolve();
  }

  /** Copies the steps since the last copy, before the job is given back. Settles within `withinMs`. */
  async last(withinMs: number): Promise<void> {
    if (this.#options.everySteps === 0) return;
    const over = Promise.withResolvers<void>();
    const timer = setTimeout(over.resolve, withinMs);
    const copied = (async () => {
      await this.#onItsWay;
      if (this.#numStored > this.#numCopied) await this.#copyNow();
    })();
    await Promise.race([copied, over.promise]);
    clearTimeout(timer);
  }

  #copyNow(): Promise<void> {
    this.#onItsWay ??= this.#copy().then((isCopied) => {
      this.#onItsWay = null;
      // More steps have come. After a failure the next one tries again.
      if (isCopied && this.#isDue) void this.#copyNow();
    });
    return this.#onItsWay;
  }

  get #isDue(): boolean {
    const { everySteps } = this.#options;
    return everySteps > 0 && !this.#isOver && this.#numStored - this.#numCopied >= everySteps;
  }

  /** @returns true if one more copy is named now; never rejects */
  async #copy(): Promise<boolean> {
    const { store, blobs, job, copy, log } = this.#options;
    const directoryKey = `${snapshotsOf(job.id)}${job.fencingToken}-${randomUUID()}`;
    try {
      await store.files.announce(directoryKey);
      const numGradientSteps = await copy(directoryKey);
      if (numGradientSteps === null) return false;
      // The event of its last step may not be stored yet.
      while (this.#numStored < numGradientSteps && !this.#isOver) await this.#stored.promise;
      if (this.#numStored < numGradientSteps) {
        await blobs.removeDirectory(directoryKey);
        return false;
      }
      const file = { key: directoryKey, kind: 'directory' } as const;
      const kept = await nameFile({ store, blobs, log }, file, () =>
        store.jobs.keepSnapshot(job.id, job.fencingToken, { directoryKey, numGradientSteps }),
      );
      this.#numCopied = numGradientSteps;
      if (this.#isFailing) log(`job ${job.id}: copying snapshots to the blobs works again`);
      this.#isFailing = false;
      // Null: it is named, although the store reported an error. The previous one is then removed at the next
      // start.
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
