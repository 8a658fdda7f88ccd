/** What every kind of job has in common: its errors, the weights it starts from, and its steps, which a crash does not repeat. */
import { strict as assert } from 'node:assert';
import { createHash } from 'node:crypto';
import { checkpointDigest, readCheckpoint, writeCheckpoint } from '../checkpoint/checkpoint.ts';
import { TrainerError } from '../contract/errors.ts';
import { meanMetrics } from './job-statistics.ts';
import { initialLoraParameters } from '../model/lora-parameters.ts';
import { freshOptimizerState, type Objective, type OptimizerState } from '../optimizer/adamw.ts';
import { resumeSnapshot, writeSnapshot } from '../checkpoint/snapshot.ts';
import type { JobBase, TrainablePolicy, TrainingParts, TrainingResult } from './training-job.ts';

/**
 * @throws {TrainerError} whatever `run` throws: `trainer.cancelled` when the signal was aborted, `trainer.internal` for anything without a
 *   code of the trainer
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

/** A job of another shape of adapter than the policy's is a bug of the caller. */
export function requireSameLora({ lora }: JobBase, model: TrainablePolicy): void {
  assert.deepEqual({ ...model.lora.config, initSeed: lora.initSeed }, lora, 'the policy has another shape of adapter');
}

/** Puts the job's first weights into the model: those of a checkpoint, or fresh ones that change nothing. */
export function startingPoint(
  { startFrom, lora, withFreshOptimizer = false }: JobBase,
  model: TrainablePolicy,
  objective: Objective,
): OptimizerState {
  if (startFrom !== null) {
    const kept = readCheckpoint(startFrom, model.lora, objective);
    return withFreshOptimizer ? freshOptimizerState(model.lora.tensors, objective) : kept;
  }
  const fresh = initialLoraParameters(model.architecture, lora);
  model.lora.tensors.forEach(({ value }, i) => value.set(fresh.tensors[i]!.value));
  return freshOptimizerState(model.lora.tensors, objective);
}

/** What decides a job's outcome: another job's snapshot must not be gone on from. */
export function jobFingerprint(
  { lora, startFrom, withFreshOptimizer = false }: JobBase,
  settings: object,
  data: Iterable<ArrayBufferView>,
): string {
  const start = startFrom === null ? null : checkpointDigest(startFrom);
  const hash = createHash('sha256').update(JSON.stringify({ ...settings, lora, start, withFreshOptimizer }));
  for (const { buffer, byteOffset, byteLength } of data) hash.update(new Uint8Array(buffer, byteOffset, byteLength));
  return hash.digest('hex');
}

export interface StepPlan {
  readonly numSteps: number;
  readonly fingerprint: string;
  /** The state to begin with, when there is no snapshot. */
  readonly optimizer: OptimizerState;
  /** Takes the step and says what it measured; all values finite. */
  readonly step: (index: number, optimizer: OptimizerState) => Promise<Readonly<Record<string, number>>>;
}

/**
 * Takes the steps that no snapshot has, one event and one snapshot each, and writes the checkpoint. Steps of an earlier life emit their
 * events once more, unchanged.
 */
export async function runSteps(job: JobBase, parts: TrainingParts, plan: StepPlan): Promise<TrainingResult> {
  const { model, signal, emit } = parts;
  const { numSteps, fingerprint } = plan;
  const progress = resumeSnapshot(job.workDirectory, fingerprint, model.lora, plan.optimizer.objective);
  const optimizer = progress?.optimizer ?? plan.optimizer;
  const stepMetrics = [...(progress?.stepMetrics ?? [])];
  stepMetrics.forEach((metrics, index) => emit({ kind: 'gradient_step', index, metrics }));
  for (let index = stepMetrics.length; index < numSteps; index++) {
    const metrics = await plan.step(index, optimizer);
    stepMetrics.push(metrics);
    if (stepMetrics.length < numSteps)
      writeSnapshot(job.workDirectory, fingerprint, model.lora, { stepMetrics, optimizer });
    emit({ kind: 'gradient_step', index, metrics });
  }
  signal.throwIfAborted();
  const metrics = meanMetrics(stepMetrics);
  const digest = writeCheckpoint(job.outputDirectory, model.lora, model.architecture, optimizer, metrics);
  return { numGradientSteps: numSteps, digest, metrics };
}
