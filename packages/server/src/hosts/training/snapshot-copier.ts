import { copyFile, link, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';

import type { JobSnapshot } from '@trainyard/store';
import { type Blobs, StoreError } from '@trainyard/store/blobs';
import { linkSnapshot, placeSnapshot, TrainerError } from '@trainyard/trainer';

/** Folder below that of a job's snapshots. */
const OUTGOING = 'outgoing';

/** Copies the snapshots of running jobs from this machine to the blobs, and back. */
export class SnapshotCopier {
  readonly #blobs: Blobs;
  readonly #workDirectory: string;

  constructor(blobs: Blobs, workDirectory: string) {
    this.#blobs = blobs;
    this.#workDirectory = workDirectory;
  }

  /**
   * Copies the job's current newest snapshot to a blob directory. The job may continue meanwhile, but only
   * one copy of its snapshots may run at a time.
   * @returns its number of gradient steps; null if there is none yet
   * @throws {StoreError}
   */
  async copy(snapshots: string, directoryKey: string): Promise<number | null> {
    const outgoing = join(this.#workDirectory, snapshots, OUTGOING);
    const numGradientSteps = linkSnapshot({ workDirectory: this.#workDirectory, snapshots }, outgoing);
    if (numGradientSteps === null) return null;
    try {
      const staged = await this.#blobs.stageDirectory();
      try {
        for (const name of await readdir(outgoing)) await linkOrCopy(join(outgoing, name), join(staged, name));
        await this.#blobs.commitDirectory(staged, directoryKey);
      } finally {
        await this.#blobs.discardDirectory(staged);
      }
    } finally {
      await rm(outgoing, { recursive: true, force: true });
    }
    return numGradientSteps;
  }

  /**
   * Fetches a snapshot, unless the job has got as far on this machine. Reports a missing or damaged one, and
   * the job continues without it.
   * @returns a line for the log; null if there is none
   * @throws {StoreError} while the blobs are unavailable; {TrainerError} `trainer.disk_full`
   */
  async bring(snapshots: string, { directoryKey, numGradientSteps }: JobSnapshot): Promise<string | null> {
    try {
      const source = await this.#blobs.localDirectory(directoryKey);
      if (source === null) return 'its snapshot in the blobs is missing, so it starts without one';
      const isNeeded = await placeSnapshot(source, { workDirectory: this.#workDirectory, snapshots });
      return isNeeded ? `it continues after gradient step ${numGradientSteps} from its snapshot in the blobs` : null;
    } catch (error) {
      if (!isDamage(error)) throw error;
      return `its snapshot in the blobs is damaged, so it starts without one: ${error.message}`;
    }
  }
}

function isDamage(error: unknown): error is StoreError | TrainerError {
  return (
    (error instanceof StoreError && (error.code === 'store.blob_corrupt' || error.code === 'store.blob_missing')) ||
    (error instanceof TrainerError &&
      (error.code === 'trainer.checkpoint_unreadable' || error.code === 'trainer.checkpoint_damaged'))
  );
}

/** Blobs may be on another file system. */
async function linkOrCopy(from: string, to: string): Promise<void> {
  await link(from, to).catch(() => copyFile(from, to));
}
