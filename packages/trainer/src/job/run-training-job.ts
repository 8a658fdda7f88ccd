import { TrainerError } from '../contract/errors.ts';
import type { LearnerForwardOptions } from '../learner/learner-session.ts';
import { requireCapabilities, type LearnerNeeds } from '../learner/require-capabilities.ts';
import type { OtherLogprobs } from '../objectives/policy-step-objective.ts';
import type { TrainingRow } from '../packing/pack.ts';
import { trainingSequences } from '../rollouts/training-sequences.ts';
import { trainingSteps } from '../rollouts/training-steps.ts';
import { validateGroups } from '../rollouts/validate-groups.ts';
import { baseDistance, startDistance } from './base-distance.ts';
import { jobFingerprint, requireSameLora, runSteps, versionDigest, withTrainerErrors } from './job-run.ts';
import { jobMetrics, startedData } from './job-statistics.ts';
import { startWarnings, withStepWarnings } from './job-warnings.ts';
import { absentMetrics, learnerWarnings } from './learner-warnings.ts';
import { resolveLearningRate } from './learning-rate-rule.ts';
import { policyStep } from './policy-step.ts';
import { referenceKind, referenceWeights } from './reference-policy.ts';
import { fillUnreportedLogprobs, hasPolicy } from './unreported-logprobs.ts';
import { encodeTokenTrace, type RowValues, traceStep } from './token-trace.ts';
import type { TrainingJob, TrainingParts, TrainingResult } from './training-job.ts';

/**
 * Runs one reinforcement-learning job: trajectory groups in, an adapter version out. Each gradient step takes
 * whole groups; one pass over the data. The same job on the same kind of machine gives the same digest, even
 * after an interruption: a restart emits the events of finished steps again, unchanged.
 *
 * @returns with nothing to train: no steps, no files, digest null
 * @throws {TrainerError} `trainer.cancelled` if `signal` aborts; `trainer.reward_not_finite`,
 * `trainer.token_out_of_range`, `trainer.logprob_invalid`, `trainer.render_failed`, `trainer.config_invalid`,
 * `trainer.non_finite`, `trainer.checkpoint_unreadable`, `trainer.disk_full`, `trainer.internal`. After an error
 * the version `output` does not exist.
 */
export async function runTrainingJob(job: TrainingJob, parts: TrainingParts): Promise<TrainingResult> {
  const watched = { ...parts, emit: withStepWarnings(parts.emit, job.config) };
  return await withTrainerErrors(job, watched, () => train(job, watched));
}

async function train(job: TrainingJob, parts: TrainingParts): Promise<TrainingResult> {
  const { learner, template, signal, emit } = parts;
  const config = {
    ...job.config,
    learningRate: resolveLearningRate(job.config.learningRate, learner.model, job.lora),
  };
  requireSameLora(job, learner);
  requireCapabilities(needsOf(job), learner);

  const started = performance.now();
  validateGroups(job.groups, learner.model.vocabSize, config.allowTrainingWithoutLogprobs);
  const { sequences, groupSizes, maxTokens, report } = await trainingSequences(job.groups, {
    template,
    config,
    canReplay: learner.capabilities.replay,
    hasPolicy: hasPolicy(job, parts),
    signal,
  });
  const steps = trainingSteps(sequences, { groupSizes, maxTokens, config, seed: job.seed });
  const rows = steps.flatMap((step) => step.rows);
  const ofTheJob: Record<string, number> = {
    ...jobMetrics(job.groups, report),
    seconds_prepare: (performance.now() - started) / 1000,
  };
  const sizes = { numSteps: steps.length, numRows: rows.length, maxTokens };
  emit({
    kind: 'training_started',
    numGradientSteps: steps.length,
    data: startedData(report, { ...sizes, absentMetrics: absentMetrics(learner.capabilities) }),
    outcomes: report.trajectoryOutcomes,
  });
  for (const warning of startWarnings(job.groups, { config, architecture: learner.model, lora: job.lora, report }))
    emit({ kind: 'warning', warning });
  for (const warning of learnerWarnings(learner.capabilities)) emit({ kind: 'warning', warning });
  if (rows.length === 0) return { numGradientSteps: 0, digest: null, metrics: ofTheJob };

  const { startFrom, withFreshOptimizer = false } = job;
  await learner.load(startFrom, { jobKind: 'rl', withFreshOptimizer });
  const hashed = rows.flatMap(arraysOf);
  const numUnreported = await fillUnreportedLogprobs(rows, job, parts);
  if (numUnreported > 0) ofTheJob['num_computed_logprobs'] = numUnreported;
  // A fresh adapter is the base model.
  const numTokens = rows.reduce((sum, { row }) => sum + row.tokenIds.length, 0);
  const distance = startFrom === null ? { kl_base: 0 } : await baseDistance(rows[0]!, numTokens, parts);
  Object.assign(ofTheJob, distance, await startDistance(job, { distance, row: rows[0]!, numTokens }, parts));
  const prepared = performance.now();
  const precalculated = config.precalculateLogprobs ? await logprobsOf(rows, parts) : null;
  if (precalculated !== null) ofTheJob['seconds_precalculate'] = (performance.now() - prepared) / 1000;
  const reference = referenceWeights(job);

  const { seed, referenceFrom = null } = job;
  const settings = {
    config,
    seed,
    reference: referenceFrom === null ? null : await versionDigest(learner, referenceFrom),
    rowsOfSteps: steps.map((step) => step.rows.length),
  };
  const fingerprint = await jobFingerprint(job, learner, settings, hashed);
  const keepTraces = (index: number, ofRows: readonly TrainingRow[], values: readonly RowValues[]) =>
    parts.traces?.write(
      job.snapshots,
      index,
      traceStep(ofRows, values).map(({ sequences: traced, ...place }) => ({
        ...place,
        trace: encodeTokenTrace(traced, (id) => template.tokenizer.tokenBytes(id)),
      })),
    );
  const step = async (index: number) => {
    const taken = steps[index]!;
    const stepStarted = performance.now();
    const others: OtherLogprobs[] = [];
    for (const row of taken.rows) {
      others.push({
        precalculated: precalculated?.get(row) ?? null,
        reference: reference === null ? null : await logprobsUnder(reference, row, parts),
      });
    }
    const referenceSeconds = (performance.now() - stepStarted) / 1000;
    const metrics = await policyStep(taken, others, {
      learner,
      config,
      signal,
      onValues: (values) => keepTraces(index, taken.rows, values),
    });
    return {
      ...ofTheJob,
      ...metrics,
      ...(reference === null ? {} : { seconds_reference: referenceSeconds }),
    };
  };
  return await runSteps(job, parts, { jobKind: 'rl', numSteps: steps.length, fingerprint, step });
}

function needsOf({ config, lora, referenceFrom }: TrainingJob): LearnerNeeds {
  return {
    loss: config.lossFunction,
    lora,
    usesEntropies: config.entropyCoef > 0,
    reference: referenceKind(referenceFrom, config),
  };
}

/** Values of one row, [N], under weights that are not being trained. */
async function logprobsUnder(
  under: LearnerForwardOptions['under'] & {},
  { row }: TrainingRow,
  { learner, signal }: TrainingParts,
): Promise<Float32Array> {
  const [output] = await learner.forward([row], { under, signal });
  return output!.logprobs;
}

/** Values of each row, [N], under the current weights. */
async function logprobsOf(
  rows: readonly TrainingRow[],
  parts: TrainingParts,
): Promise<ReadonlyMap<TrainingRow, Float32Array>> {
  const results = new Map<TrainingRow, Float32Array>();
  for (const row of rows) {
    const logprobs = await logprobsUnder('trained', row, parts);
    if (!logprobs.every(Number.isFinite)) {
      throw new TrainerError('trainer.non_finite', 'a recomputed log-probability is not finite');
    }
    results.set(row, logprobs);
  }
  return results;
}

/** Arrays as they were sent: values computed for unreported ones do not change a job's identity. */
function arraysOf({ row, sampledLogprobs, unreported, advantages, weights }: TrainingRow): ArrayBufferView[] {
  const reported = unreported === undefined ? sampledLogprobs : sampledLogprobs.slice();
  return [row.tokenIds, row.parents, row.sources, row.targets, reported, advantages, weights];
}
