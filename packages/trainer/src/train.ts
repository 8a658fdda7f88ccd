import { strict as assert } from 'node:assert';
import { createHash } from 'node:crypto';
import { readCheckpoint, checkpointDigest, writeCheckpoint } from './checkpoint.ts';
import { TrainerError } from './errors.ts';
import { gradientStep, type OtherLogprobs } from './gradient-step.ts';
import { jobMetrics, meanMetrics, startedData } from './job-statistics.ts';
import { initialLoraParameters } from './model/lora-parameters.ts';
import { freshOptimizerState, type OptimizerState } from './optimizer.ts';
import { packRows, type TrainingRow } from './pack.ts';
import { hasReference, referenceAdapter, referenceLogprobs } from './reference-policy.ts';
import { resumeSnapshot, writeSnapshot } from './snapshot.ts';
import type { TrainablePolicy, TrainingJob, TrainingParts, TrainingResult } from './training-job.ts';
import { trainingSequences } from './training-sequences.ts';
import { validateGroups } from './validate-groups.ts';

/**
 * Runs one reinforcement-learning job: trajectory groups in, an adapter checkpoint out.
 *
 * Every row of packed tokens is one gradient step; one pass over the data. The same job on the same kind of machine gives the same
 * digest, also when it was cut off in between and started again: it then emits the events of finished steps once more, unchanged.
 *
 * @returns With nothing to train: no steps, no files, digest null.
 * @throws {TrainerError} `trainer.cancelled` when `signal` aborts; `trainer.reward_not_finite`, `trainer.token_out_of_range`,
 *   `trainer.logprob_invalid`, `trainer.render_failed`, `trainer.config_invalid`, `trainer.non_finite`, `trainer.checkpoint_unreadable`,
 *   `trainer.disk_full`, `trainer.internal`. Whatever is thrown, `outputDirectory` does not exist.
 */
export async function runTrainingJob(job: TrainingJob, parts: TrainingParts): Promise<TrainingResult> {
  try {
    return await train(job, parts);
  } catch (error) {
    if (parts.signal.aborted)
      throw new TrainerError('trainer.cancelled', `job ${job.jobId} was cancelled`, { cause: error });
    if (error instanceof TrainerError) throw error;
    throw new TrainerError('trainer.internal', `job ${job.jobId} failed inside the trainer`, { cause: error });
  }
}

async function train(job: TrainingJob, parts: TrainingParts): Promise<TrainingResult> {
  const { config, workDirectory } = job;
  const { model, template, gate, signal, emit } = parts;
  assert.deepEqual(
    { ...model.lora.config, initSeed: job.lora.initSeed },
    job.lora,
    'the policy has another shape of adapter',
  );

  const started = performance.now();
  validateGroups(job.groups, model.architecture.vocabSize, config.allowTrainingWithoutLogprobs);
  const { sequences, maxTokens, report } = await trainingSequences(job.groups, { template, config, signal });
  const rows = packRows(sequences, maxTokens, job.seed);
  const ofTheJob: Record<string, number> = {
    ...jobMetrics(job.groups, report),
    seconds_prepare: (performance.now() - started) / 1000,
  };
  emit({ kind: 'training_started', numGradientSteps: rows.length, data: startedData(report, rows.length) });
  if (rows.length === 0) return { numGradientSteps: 0, digest: null, metrics: ofTheJob };

  let optimizer = startingPoint(job, model);
  const prepared = performance.now();
  const precalculated = config.precalculateLogprobs ? await logprobsOf(rows, parts) : null;
  if (precalculated !== null) ofTheJob['seconds_precalculate'] = (performance.now() - prepared) / 1000;
  const reference = referenceAdapter(job, model);

  const fingerprint = jobFingerprint(job, rows);
  const progress = resumeSnapshot(workDirectory, fingerprint, model.lora);
  if (progress !== null) optimizer = progress.optimizer;
  const stepMetrics = [...(progress?.stepMetrics ?? [])];
  stepMetrics.forEach((metrics, index) => emit({ kind: 'gradient_step', index, metrics }));

  for (let index = stepMetrics.length; index < rows.length; index++) {
    const row = rows[index]!;
    const stepStarted = performance.now();
    const other: OtherLogprobs = {
      precalculated: precalculated?.[index] ?? null,
      reference: hasReference(config) ? await referenceLogprobs(row.row, reference, parts) : null,
    };
    const referenceSeconds = (performance.now() - stepStarted) / 1000;
    const step = await gradientStep(row, other, { model, config, optimizer, gate, signal });
    const metrics = {
      ...ofTheJob,
      ...step,
      ...(other.reference === null ? {} : { seconds_reference: referenceSeconds }),
    };
    stepMetrics.push(metrics);
    if (stepMetrics.length < rows.length)
      writeSnapshot(workDirectory, fingerprint, model.lora, { stepMetrics, optimizer });
    emit({ kind: 'gradient_step', index, metrics });
  }
  signal.throwIfAborted();
  const metrics = meanMetrics(stepMetrics);
  const digest = writeCheckpoint(job.outputDirectory, model.lora, model.architecture, optimizer, metrics);
  return { numGradientSteps: rows.length, digest, metrics };
}

/** Puts the job's first weights into the model: those of a checkpoint, or fresh ones that change nothing. */
function startingPoint(job: TrainingJob, model: TrainablePolicy): OptimizerState {
  const { startFrom, lora } = job;
  if (startFrom !== null) {
    const kept = readCheckpoint(startFrom, model.lora);
    return job.withFreshOptimizer ? freshOptimizerState(model.lora.tensors) : kept;
  }
  const fresh = initialLoraParameters(model.architecture, lora);
  model.lora.tensors.forEach(({ value }, i) => value.set(fresh.tensors[i]!.value));
  return freshOptimizerState(model.lora.tensors);
}

/** Log-probabilities of all rows under the weights as they are: [rows][N]. */
async function logprobsOf(
  rows: readonly TrainingRow[],
  { model, gate, signal }: TrainingParts,
): Promise<Float32Array[]> {
  const results: Float32Array[] = [];
  for (const { row } of rows) {
    const { logprobs } = await model.forward(row, { gate, signal });
    if (!logprobs.every(Number.isFinite)) {
      throw new TrainerError('trainer.non_finite', 'a recomputed log-probability is not finite');
    }
    results.push(logprobs.slice());
  }
  return results;
}

/** What decides a job's outcome: another job's snapshot must not be gone on from. */
function jobFingerprint(job: TrainingJob, rows: readonly TrainingRow[]): string {
  const { config, lora, seed, startFrom, withFreshOptimizer = false, referenceFrom = null } = job;
  const start = startFrom === null ? null : checkpointDigest(startFrom);
  const reference = referenceFrom === null ? null : checkpointDigest(referenceFrom);
  const hash = createHash('sha256').update(
    JSON.stringify({ config, lora, seed, start, withFreshOptimizer, reference }),
  );
  for (const { row, sampledLogprobs, advantages, weights } of rows) {
    for (const values of [row.tokenIds, row.parents, row.sources, row.targets, sampledLogprobs, advantages, weights]) {
      hash.update(new Uint8Array(values.buffer, values.byteOffset, values.byteLength));
    }
  }
  return hash.digest('hex');
}
