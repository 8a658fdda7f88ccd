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
  const saved = await learner.save(`${snapshots}/step-${stepMetrics.length}`, { isServed: false });
  const { name, digest, sizeBytes = null } = saved;
  await progress.write(snapshots, { fingerprint, version: name, digest, stepMetrics });
  if (former !== null && former.version !== name) await learner.discard(former.version);
  return { sizeBytes };
}

/** Result of `resumeSnapshot`: metrics of the steps that the learner has behind it, and the reason why a snapshot was not used. */
export interface Resumed {
  readonly stepMetrics: readonly StepMetrics[];
  /** Null: there was none, it was of another job, or it is loaded. */
  readonly damage: { readonly numSteps: number; readonly reason: string } | null;
}

/** Loads the job's snapshot into the learner. The learner stays as it was when there is none, or it is damaged or of another job. */
export async function resumeSnapshot(
  { snapshots }: Pick<JobBase, 'snapshots'>,
  { learner, progress }: SnapshotParts,
  { fingerprint, jobKind }: { fingerprint: string; jobKind: JobKind },
): Promise<Resumed> {
  const record = readProgress(await progress.read(snapshots));
  if (record === null || record.fingerprint !== fingerprint) return { stepMetrics: [], damage: null };
  const { version, digest = null, stepMetrics } = record;
  try {
    const found = digest === null ? null : await learner.find(version);
    if (found !== null && found.digest !== digest)
      throw new TrainerError('trainer.checkpoint_damaged', 'its weights are those of another step');
    await learner.load(version, { jobKind });
    return { stepMetrics, damage: null };
  } catch (error) {
    if (!isDamage(error)) throw error;
    return { stepMetrics: [], damage: { numSteps: stepMetrics.length, reason: error.message } };
  }
}

function isDamage(error: unknown): error is TrainerError {
  if (!(error instanceof TrainerError)) return false;
  return error.code === 'trainer.checkpoint_unreadable' || error.code === 'trainer.checkpoint_damaged';
}

/** How far a job got, and the version with the learner as it was then. */
export interface ProgressRecord {
  readonly fingerprint: string;
  readonly version: string;
  /** Digest of the version as it was saved. Null when the learner does not report it; absent in records of earlier releases. */
  readonly digest?: string | null;
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
