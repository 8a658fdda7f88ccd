/**
 * The snapshot after each gradient step, from which a job resumes when its process dies: a version `<snapshots>/step-<k>` with the
 * learner after k steps, and a record of how far the job got, which names it. The version is there before the record names it, and the one
 * before goes after that.
 */
import { TrainerError } from '../contract/errors.ts';
import type { JobKind } from '../optimizer/adamw.ts';
import type { JobBase, TrainingParts } from './training-job.ts';

type SnapshotParts = Pick<TrainingParts, 'learner' | 'progress'>;
type StepMetrics = Readonly<Record<string, number>>;

/**
 * @param fingerprint What identifies the job: a snapshot of another one is not gone on from.
 * @param stepMetrics Metrics of each finished gradient step, in order, as they are reported.
 * @returns its size, null where the learner does not tell it
 * @throws {TrainerError} `trainer.disk_full`
 */
export async function writeSnapshot(
  { snapshots }: Pick<JobBase, 'snapshots'>,
  { learner, progress }: SnapshotParts,
  { fingerprint, stepMetrics }: { fingerprint: string; stepMetrics: readonly StepMetrics[] },
): Promise<{ sizeBytes: number | null }> {
  const former = readProgress(await progress.read(snapshots));
  const { name, sizeBytes = null } = await learner.save(`${snapshots}/step-${stepMetrics.length}`, { isServed: false });
  await progress.write(snapshots, { fingerprint, version: name, stepMetrics });
  if (former !== null && former.version !== name) await learner.discard(former.version);
  return { sizeBytes };
}

/**
 * Loads the job's snapshot into the learner.
 *
 * @returns the metrics of the steps behind it; null when there is none, which a damaged one and one of another job are as good as. The
 *   learner is then as it was.
 */
export async function resumeSnapshot(
  { snapshots }: Pick<JobBase, 'snapshots'>,
  { learner, progress }: SnapshotParts,
  { fingerprint, jobKind }: { fingerprint: string; jobKind: JobKind },
): Promise<readonly StepMetrics[] | null> {
  const record = readProgress(await progress.read(snapshots));
  if (record === null || record.fingerprint !== fingerprint) return null;
  try {
    await learner.load(record.version, { jobKind });
    return record.stepMetrics;
  } catch (error) {
    if (error instanceof TrainerError && error.code === 'trainer.checkpoint_unreadable') return null;
    throw error;
  }
}

/** How far a job got, and the version with the learner as it was then. */
export interface ProgressRecord {
  readonly fingerprint: string;
  readonly version: string;
  readonly stepMetrics: readonly StepMetrics[];
}

/** Null for anything else than such a record. */
export function readProgress(value: unknown): ProgressRecord | null {
  const isRecord =
    typeof value === 'object' &&
    value !== null &&
    'fingerprint' in value &&
    'version' in value &&
    typeof value.version === 'string' &&
    'stepMetrics' in value &&
    Array.isArray(value.stepMetrics);
  return isRecord ? (value as ProgressRecord) : null;
}
