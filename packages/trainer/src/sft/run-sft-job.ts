import { jobFingerprint, requireSameLora, runSteps, withTrainerErrors } from '../job/job-run.ts';
import { meanMetrics } from '../job/job-statistics.ts';
import { nothingToTrain } from '../job/nothing-trained.ts';
import { learnerWarnings } from '../job/learner-warnings.ts';
import { learningRateWarnings, resolveLearningRate } from '../job/learning-rate-rule.ts';
import type { JobBase, TrainingParts, TrainingResult, TrainingStartedData } from '../job/training-job.ts';
import { requireCapabilities } from '../learner/require-capabilities.ts';
import { sftBatches, type SftBatch, type SftReport } from './sft-batches.ts';
import { learningRates, type SftConfig } from './sft-config.ts';
import type { SftExample } from './sft-example.ts';
import { sftStep } from './sft-step.ts';

/** The same job and weights give the same checkpoint. */
export interface SftJob extends JobBase {
  /** Read once, in order. */
  readonly examples: Iterable<SftExample> | AsyncIterable<SftExample>;
  readonly config: SftConfig;
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

  const { batches, report } = await sftBatches(job.examples, { template, config, signal });
  const numSteps = batches.length * config.epochs;
  const learningRate = resolveLearningRate(config.learningRate, learner.model, job.lora);
  const rates = learningRates({ ...config, learningRate }, numSteps);
  const started = startedData(report, config, numSteps);
  emit({ kind: 'training_started', numGradientSteps: numSteps, data: started });
  if (report.numTrainableTokens === 0) emit({ kind: 'warning', warning: nothingToTrain(started) });
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
  const settings = { objective: 'sft', config };
  const fingerprint = await jobFingerprint(job, learner, settings, batches.flatMap(arraysOf));
  return await runSteps(job, parts, { jobKind: 'sft', numSteps, fingerprint, step });
}

/** Counts everything that was sent. */
function startedData(report: SftReport, config: SftConfig, numSteps: number): TrainingStartedData {
  const numDropped = Object.values(report.dropped).reduce((total, count) => total + count, 0);
  const numRates = typeof config.learningRate === 'object' ? config.learningRate.length : numSteps;
  return {
    num_sequences: numSteps,
    batch_size: config.batchSize,
    epochs: config.epochs,
    num_trajectories_submitted: report.numTrajectories,
    num_trajectories_trainable: report.numTrajectories - numDropped,
    num_tokens: report.numTokens,
    num_trainable_tokens: report.numTrainableTokens,
    num_ignored_learning_rates: numRates - numSteps,
    dropped_trajectories: report.dropped,
  };
}

/** Includes the ends of batches and sequences. */
function arraysOf({ sequences }: SftBatch): ArrayBufferView[] {
  const lengths = Int32Array.of(sequences.length, ...sequences.map(({ tokenIds }) => tokenIds.length));
  return [lengths, ...sequences.flatMap(({ tokenIds, lossMask }) => [tokenIds, lossMask])];
}
