/** Errors, initial weights, and steps that a crash does not repeat, for all kinds of jobs. */
import { strict as assert } from 'node:assert';
import { createHash } from 'node:crypto';
import { withSamplerNames } from '@trainyard/protocol/fields';
import { TrainerError } from '../contract/errors.ts';
import { meanMetrics } from './job-statistics.ts';
import type { JobWarning } from './job-warning.ts';
import type { LearnerSession } from '../learner/learner-session.ts';
import type { JobKind } from '../optimizer/adamw.ts';
import { resumeSnapshot, writeSnapshot } from './snapshot.ts';
import type { HeldOutMeasures, JobBase, TakenStep, TrainingParts, TrainingResult } from './training-job.ts';

/**
 * @throws {TrainerError} errors of `run`: `trainer.cancelled` if the signal was aborted, `trainer.internal`
 * without a trainer code
 */
export async function withTrainerErrors<Result>(
  { jobId }: JobBase,
  { signal }: TrainingParts,
  run: () => Promise<Result>,
): Promise<Result> {
  try {
    return await run();
  } catch (error) {
    if (signal.aborted) throw new TrainerError('trainer.cancelled', `job ${jobId} was cancelled`, { cause: error });
    if (error instanceof TrainerError) throw error;
    const reason = error instanceof Error ? error.message : String(error);
    throw new TrainerError('trainer.internal', `job ${jobId} failed inside the trainer: ${reason}`, { cause: error });
  }
}

export function requireSameLora({ lora }: JobBase, learner: LearnerSession): void {
  assert.deepEqual(learner.lora, lora, 'the adapter of the learner has a different shape');
}

/**
 * Independent of the version's place.
 *
 * @throws {TrainerError} `trainer.checkpoint_unreadable` if it does not exist
 */
export async function versionDigest(learner: LearnerSession, name: string): Promise<string> {
  const version = await learner.find(name);
  // Names are never reused, so the name identifies a version without digest.
  if (version !== null) return version.digest ?? name;
  throw new TrainerError('trainer.checkpoint_unreadable', `the adapter version ${name} does not exist`);
}

/** Covers everything that decides a job's outcome: a job must not resume from another one's snapshot. */
export async function jobFingerprint(
  { lora, startFrom, withFreshOptimizer = false }: JobBase,
  learner: LearnerSession,
  settings: object,
  data: Iterable<ArrayBufferView>,
): Promise<string> {
  const start = startFrom === null ? null : await versionDigest(learner, startFrom);
  const hash = createHash('sha256').update(JSON.stringify({ ...settings, lora, start, withFreshOptimizer }));
  for (const { buffer, byteOffset, byteLength } of data) hash.update(new Uint8Array(buffer, byteOffset, byteLength));
  return hash.digest('hex');
}

function snapshotDamaged({ numSteps, reason }: { numSteps: number; reason: string }): JobWarning {
  return {
    code: 'snapshot_damaged',
    message: `the snapshot after gradient step ${numSteps} is damaged and was not used (${reason})`,
    value: numSteps,
    suggestion: 'the job restarted at its first gradient step, with the same result; check the disk of the work folder',
  };
}

export interface StepPlan {
  readonly jobKind: JobKind;
  readonly numSteps: number;
  readonly fingerprint: string;
  /** @returns finite metrics */
  readonly step: (index: number) => Promise<Readonly<Record<string, number>>>;
  /** Measures the weights after that many steps; null: not then. Default: never. */
  readonly measure?: (numTaken: number) => Promise<HeldOutMeasures | null>;
}

/** Metric of the resulting weights. */
const HELD_OUT_LOSS = 'held_out/loss';

/**
 * Takes the steps that no snapshot has, with one event and one snapshot each, and saves the version. Repeats the
 * events of earlier steps unchanged. Without a snapshot it starts from the learner's current weights.
 */
export async function runSteps(job: JobBase, parts: TrainingParts, plan: StepPlan): Promise<TrainingResult> {
  const { learner, signal, traces } = parts;
  const emit = (index: number, metrics: Readonly<Record<string, number>>, taken?: TakenStep) => {
    const kept = traces?.read(job.snapshots, index) ?? [];
    const ofTheStep = { ...(kept.length > 0 ? { traces: kept } : {}), ...(taken === undefined ? {} : { taken }) };
    parts.emit({ kind: 'gradient_step', index, metrics, ...ofTheStep });
  };
  const { numSteps, fingerprint, jobKind, measure = async () => null } = plan;
  const resumed = await resumeSnapshot(job, parts, { fingerprint, jobKind });
  if (resumed.damage !== null) parts.emit({ kind: 'warning', warning: snapshotDamaged(resumed.damage) });
  // Snapshots of earlier releases have the plain names only.
  const stepMetrics = resumed.stepMetrics.map(withSamplerNames);
  const measured = new Map(resumed.measured);
  const measureAfter = async (numTaken: number) => {
    const isOld = numTaken < resumed.stepMetrics.length;
    const measures = measured.get(numTaken) ?? (isOld ? null : await measure(numTaken));
    if (measures === null) return;
    measured.set(numTaken, measures);
    parts.emit({ kind: 'held_out', numSteps: numTaken, measures });
  };
  for (const [index, metrics] of stepMetrics.entries()) {
    await measureAfter(index);
    emit(index, metrics);
  }
  for (let index = stepMetrics.length; index < numSteps; index++) {
    await measureAfter(index);
    const begun = performance.now();
    const metrics = withSamplerNames(await plan.step(index), index);
    const computed = performance.now();
    stepMetrics.push(metrics);
    const isLast = stepMetrics.length === numSteps;
    const written = isLast
      ? null
      : await writeSnapshot(job, parts, { fingerprint, stepMetrics, measured: [...measured] });
    const snapshot = written && { ...written, seconds: (performance.now() - computed) / 1000 };
    emit(index, metrics, { seconds: (computed - begun) / 1000, snapshot });
  }
  await measureAfter(numSteps);
  signal.throwIfAborted();
  const last = measured.get(numSteps);
  const metrics = { ...meanMetrics(stepMetrics), ...(last === undefined ? {} : { [HELD_OUT_LOSS]: last.loss }) };
  const { digest } = await learner.save(job.output, { metrics });
  return { numGradientSteps: numSteps, digest, metrics };
}
