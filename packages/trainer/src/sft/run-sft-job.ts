import { jobFingerprint, requireSameLora, runSteps, withTrainerErrors } from '../job/job-run.ts';
import { meanMetrics } from '../job/job-statistics.ts';
import { nothingToTrain } from '../job/nothing-trained.ts';
import { learnerWarnings } from '../job/learner-warnings.ts';
import { learningRateWarnings, resolveLearningRate } from '../job/learning-rate-rule.ts';
import type { JobWarning } from '../job/job-warning.ts';
import type {
  HeldOutMeasures,
  JobBase,
  TrainingParts,
  TrainingResult,
  TrainingStartedData,
} from '../job/training-job.ts';
import { requireCapabilities } from '../learner/require-capabilities.ts';
import { batchRows, sftBatches, type SftBatch, type SftData, type SftReport } from './sft-batches.ts';
import { heldOutLoss, type HeldOutSource, isMeasuredAfter } from './held-out.ts';
import { learningRates, type SftConfig } from './sft-config.ts';
import type { SftExample } from './sft-example.ts';
import { sftStep, type SftStepParts } from './sft-step.ts';

/** The same job and weights give the same checkpoint. */
export interface SftJob extends JobBase {
  /** Read once, in order. */
  readonly examples: Iterable<SftExample> | AsyncIterable<SftExample>;
  readonly config: SftConfig;
  /** Default: all examples are trained. */
  readonly heldOut?: HeldOutSource | null;
}

/**
 * Runs one supervised job: conversations in, an adapter version out. Consecutive conversations make a batch, a
 * batch one gradient step, in the order of the data, epoch after epoch. It is as resumable and deterministic as
 * `runTrainingJob`. The optimizer starts fresh if the initial checkpoint was of another kind of job.
 *
 * @returns without trained tokens: a step per batch, which changed nothing, no files, digest null
 * @throws {TrainerError} `trainer.cancelled` if `signal` aborts; `trainer.render_failed`,
 * `trainer.config_invalid`, `trainer.non_finite`, `trainer.checkpoint_unreadable`, `trainer.disk_full`,
 * `trainer.internal`. After an error the version `output` does not exist.
 */
export async function runSftJob(job: SftJob, parts: TrainingParts): Promise<TrainingResult> {
  return await withTrainerErrors(job, parts, () => train(job, parts));
}

async function train(job: SftJob, parts: TrainingParts): Promise<TrainingResult> {
  const { config } = job;
  const { learner, template, signal, emit } = parts;
  requireSameLora(job, learner);
  requireCapabilities({ loss: 'cross_entropy', lora: job.lora, usesEntropies: false, reference: 'none' }, learner);

  const data = await sftBatches(job.examples, { template, config, heldOut: job.heldOut ?? null, signal });
  const { batches, report, heldOut } = data;
  const numSteps = batches.length * config.epochs;
  const learningRate = resolveLearningRate(config.learningRate, learner.model, job.lora);
  const rates = learningRates({ ...config, learningRate }, numSteps);
  const started = startedData(data, config, numSteps);
  emit({ kind: 'training_started', numGradientSteps: numSteps, data: started });
  if (report.numTrainableTokens === 0) emit({ kind: 'warning', warning: nothingToTrain(started) });
  if (heldOut?.report.numTrainableTokens === 0) emit({ kind: 'warning', warning: nothingHeldOut(heldOut.report) });
  const warnings = [...learningRateWarnings(rates, learner.model, job.lora), ...learnerWarnings(learner.capabilities)];
  for (const warning of warnings) emit({ kind: 'warning', warning });
  const step = async (index: number) =>
    await sftStep(batches[index % batches.length]!, rates[index]!, { learner, config, signal });

  const { startFrom, withFreshOptimizer = false } = job;
  await learner.load(startFrom, { jobKind: 'sft', withFreshOptimizer });
  if (report.numTrainableTokens === 0) {
    const metrics = await Promise.all(rates.map((_, index) => step(index)));
    metrics.forEach((ofTheStep, index) => emit({ kind: 'gradient_step', index, metrics: ofTheStep }));
    return { numGradientSteps: numSteps, digest: null, metrics: meanMetrics(metrics) };
  }
  const settings = { objective: 'sft', config: trainedSettings(config) };
  const fingerprint = await jobFingerprint(job, learner, settings, batches.flatMap(arraysOf));
  const measure = measureOf(data, { learner, config, signal }, numSteps);
  return await runSteps(job, parts, { jobKind: 'sft', numSteps, fingerprint, step, measure });
}

/** Held-out settings change no weights, and snapshots of earlier releases do not have them. */
function trainedSettings(config: SftConfig): object {
  return Object.fromEntries(Object.entries(config).filter(([name]) => !name.startsWith('heldOut')));
}

/** @returns the measurement of the weights after that many gradient steps; null if it is not due */
function measureOf(
  { heldOut }: SftData,
  { config, ...parts }: SftStepParts,
  numSteps: number,
): (numTaken: number) => Promise<HeldOutMeasures | null> {
  if (heldOut === null) return async () => null;
  const { batch } = heldOut;
  const rows = batchRows(batch, config);
  return async (numTaken) => {
    if (rows.length === 0 || !isMeasuredAfter(numTaken, numSteps, config)) return null;
    const started = performance.now();
    const { loss, numTokens } = await heldOutLoss(rows, parts);
    const seconds = (performance.now() - started) / 1000;
    return { loss, num_trajectories: batch.numTrajectories, num_trainable_tokens: numTokens, seconds };
  };
}

function nothingHeldOut({ numTrajectories, dropped }: SftReport): JobWarning {
  const reasons = Object.entries(dropped).map(([reason, count]) => `${count} ${reason}`);
  return {
    code: 'nothing_held_out',
    message: `the held-out loss is not measured: none of ${numTrajectories} held-out conversations can be used (${reasons.join(', ')})`,
    value: numTrajectories,
    suggestion: 'hold out conversations with an assistant turn that fit into the context',
  };
}

/** Counts everything that was sent. */
function startedData({ report, heldOut }: SftData, config: SftConfig, numSteps: number): TrainingStartedData {
  const numRates = typeof config.learningRate === 'object' ? config.learningRate.length : numSteps;
  return {
    num_sequences: numSteps,
    batch_size: config.batchSize,
    epochs: config.epochs,
    num_trajectories_submitted: report.numTrajectories,
    num_trajectories_trainable: report.numTrajectories - numDropped(report),
    num_tokens: report.numTokens,
    num_trainable_tokens: report.numTrainableTokens,
    num_ignored_learning_rates: numRates - numSteps,
    dropped_trajectories: report.dropped,
    ...(heldOut === null
      ? {}
      : {
          num_trajectories_held_out: heldOut.report.numTrajectories,
          num_trajectories_measured: heldOut.report.numTrajectories - numDropped(heldOut.report),
          num_measured_tokens: heldOut.report.numTrainableTokens,
          dropped_held_out_trajectories: heldOut.report.dropped,
        }),
  };
}

function numDropped({ dropped }: SftReport): number {
  return Object.values(dropped).reduce((total, count) => total + count, 0);
}

/** Includes the ends of batches and sequences. */
function arraysOf({ sequences }: SftBatch): ArrayBufferView[] {
  const lengths = Int32Array.of(sequences.length, ...sequences.map(({ tokenIds }) => tokenIds.length));
  return [lengths, ...sequences.flatMap(({ tokenIds, lossMask }) => [tokenIds, lossMask])];
}
