/**
 * Snapshot after each gradient step, from which a job resumes if its process dies: a version
 * `<snapshots>/step-<k>`, and a progress record that names it. The version exists before the record names it,
 * and the previous one is removed afterwards.
 */
import { TrainerError } from '../contract/errors.ts';
import type { JobKind } from '../optimizer/adamw.ts';
import type { HeldOutMeasures, JobBase, TrainingParts } from './training-job.ts';

type SnapshotParts = Pick<TrainingParts, 'learner' | 'progress'>;
type StepMetrics = Readonly<Record<string, number>>;
/** Measures by the number of gradient steps before them. */
type Measured = readonly (readonly [numTaken: number, measures: HeldOutMeasures])[];

/**
 * @param fingerprint identity of the job
 * @param stepMetrics of each finished gradient step, in order
 * @param measured held-out data so far
 * @returns its size, null if the learner does not report it
 * @throws {TrainerError} `trainer.disk_full`
 */
export async function writeSnapshot(
  { snapshots }: Pick<JobBase, 'snapshots'>,
  { learner, progress }: SnapshotParts,
  {
    fingerprint,
    stepMetrics,
    measured = [],
  }: { fingerprint: string; stepMetrics: readonly StepMetrics[]; measured?: Measured },
): Promise<{ sizeBytes: number | null }> {
  const former = readProgress(await progress.read(snapshots));
  const saved = await learner.save(`${snapshots}/step-${stepMetrics.length}`, { isServed: false });
  const { name, digest, sizeBytes = null } = saved;
  await progress.write(snapshots, { fingerprint, version: name, digest, stepMetrics, measured });
  if (former !== null && former.version !== name) await learner.discard(former.version);
  return { sizeBytes };
}

/** Metrics of the loaded steps, and the reason if a snapshot was not used. */
export interface Resumed {
  readonly stepMetrics: readonly StepMetrics[];
  readonly measured: Measured;
  /** Null: there was none, it was of another job, or it is loaded. */
  readonly damage: { readonly numSteps: number; readonly reason: string } | null;
}

/** The learner is unchanged if there is no snapshot, or it is damaged or of another job. */
export async function resumeSnapshot(
  { snapshots }: Pick<JobBase, 'snapshots'>,
  { learner, progress }: SnapshotParts,
  { fingerprint, jobKind }: { fingerprint: string; jobKind: JobKind },
): Promise<Resumed> {
  const record = readProgress(await progress.read(snapshots));
  if (record === null || record.fingerprint !== fingerprint) return { stepMetrics: [], measured: [], damage: null };
  const { version, digest = null, stepMetrics, measured = [] } = record;
  try {
    const found = digest === null ? null : await learner.find(version);
    if (found !== null && found.digest !== digest)
      throw new TrainerError('trainer.checkpoint_damaged', 'its weights are those of another step');
    await learner.load(version, { jobKind });
    return { stepMetrics, measured, damage: null };
  } catch (error) {
    if (!isDamage(error)) throw error;
    return { stepMetrics: [], measured: [], damage: { numSteps: stepMetrics.length, reason: error.message } };
  }
}

function isDamage(error: unknown): error is TrainerError {
  if (!(error instanceof TrainerError)) return false;
  return error.code === 'trainer.checkpoint_unreadable' || error.code === 'trainer.checkpoint_damaged';
}

/** Progress, and the learner's version at that point. */
export interface ProgressRecord {
  readonly fingerprint: string;
  readonly version: string;
  /** Null if the learner does not report it; absent in records of earlier releases. */
  readonly digest?: string | null;
  readonly stepMetrics: readonly StepMetrics[];
  /** Absent in records of earlier releases. */
  readonly measured?: Measured;
}

/** Null for anything else. */
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
