/** A job's newest snapshot as one folder that can be moved and resumed elsewhere. */
import { copyFileSync, existsSync, linkSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { checkCheckpoint } from '../checkpoint/checkpoint.ts';
import { syncFile } from '../checkpoint/durable-directory.ts';
import { TrainerError } from '../contract/errors.ts';
import { LocalVersions } from '../learner/version-folders.ts';
import { PROGRESS_FILE, ProgressFiles } from './progress-records.ts';
import { type ProgressRecord, readProgress } from './snapshot.ts';

/** A job's snapshots on this machine. */
export interface SnapshotPlace {
  /** Base of relative names. */
  readonly workDirectory: string;
  /** As `JobBase.snapshots`. */
  readonly snapshots: string;
}

/**
 * Creates the folder `target` from the newest snapshot atomically. Its files are hard links if the file system
 * has them, and outlive the snapshot.
 *
 * @returns gradient steps in the snapshot; null if the job has none yet
 */
export function linkSnapshot({ workDirectory, snapshots }: SnapshotPlace, target: string): number | null {
  const record = readProgress(new ProgressFiles(workDirectory).readNow(snapshots));
  if (record === null) return null;
  rmSync(target, { recursive: true, force: true });
  mkdirSync(target, { recursive: true });
  const version = join(workDirectory, record.version);
  for (const name of readdirSync(version)) linkOrCopy(join(version, name), join(target, name));
  linkOrCopy(join(workDirectory, snapshots, PROGRESS_FILE), join(target, PROGRESS_FILE));
  return record.stepMetrics.length;
}

/**
 * Makes the snapshot in `source`, a folder of `linkSnapshot`, the newest of its job here, unless a newer one
 * exists.
 *
 * @returns true if it was needed
 * @throws {TrainerError} `trainer.checkpoint_unreadable` if it is not of this job, `trainer.checkpoint_damaged`,
 * `trainer.disk_full`
 */
export async function placeSnapshot(source: string, { workDirectory, snapshots }: SnapshotPlace): Promise<boolean> {
  const progress = new ProgressFiles(workDirectory);
  const brought = readProgress(new ProgressFiles(source).readNow(''));
  if (!brought?.version.startsWith(`${snapshots}/`)) {
    throw new TrainerError('trainer.checkpoint_unreadable', `${source} holds no snapshot of the job`);
  }
  checkCheckpoint(source);
  const own = readProgress(progress.readNow(snapshots));
  if (own !== null && isAtLeast(own, brought) && isIntact(join(workDirectory, own.version))) return false;
  const versions = new LocalVersions(workDirectory);
  await versions.write(brought.version, (directory) => {
    const names = readdirSync(source).filter((name) => name !== PROGRESS_FILE);
    for (const name of names) copyDurably(join(source, name), join(directory, name));
  });
  await progress.write(snapshots, brought);
  if (own !== null && own.version !== brought.version) await versions.remove(own.version);
  return true;
}

function isIntact(directory: string): boolean {
  try {
    if (!existsSync(directory)) return false;
    checkCheckpoint(directory);
    return true;
  } catch (error) {
    if (error instanceof TrainerError && error.code === 'trainer.checkpoint_damaged') return false;
    throw error;
  }
}

function isAtLeast(own: ProgressRecord, other: ProgressRecord): boolean {
  return own.stepMetrics.length >= other.stepMetrics.length;
}

function linkOrCopy(from: string, to: string): void {
  try {
    linkSync(from, to);
  } catch {
    copyFileSync(from, to); // a file system without hard links; other errors recur here
  }
}

function copyDurably(from: string, to: string): void {
  copyFileSync(from, to);
  syncFile(to);
}
