import { baseDistance } from './base-distance.ts';
import { checkpointDigest } from '../checkpoint/checkpoint.ts';
import { TrainerError } from '../contract/errors.ts';
import { jobFingerprint, requireSameLora, runSteps, startingPoint, withTrainerErrors } from './job-run.ts';
import { jobMetrics, startedData } from './job-statistics.ts';
import { startWarnings, withStepWarnings } from './job-warnings.ts';
import type { OtherLogprobs } from '../objectives/policy-step-objective.ts';
import type { OptimizerState } from '../optimizer/adamw.ts';
import type { TrainingRow } from '../packing/pack.ts';
import { policyStep } from './policy-step.ts';
import { hasReference, referenceAdapter, referenceLogprobs } from './reference-policy.ts';
import type { TrainingJob, TrainingParts, TrainingResult } from './training-job.ts';
import { trainingSequences } from '../rollouts/training-sequences.ts';
import { trainingSteps } from '../rollouts/training-steps.ts';
import { validateGroups } from '../rollouts/validate-groups.ts';

/**
 * Runs one reinforcement-learning job: trajectory groups in, an adapter checkpoint out.
 *
 * Whole groups make a gradient step, whose rows of packed tokens add up their gradients; one pass over the data. The same job on the same kind of machine gives the same
 * digest, also when it was cut off in between and started again: it then emits the events of finished steps once more, unchanged.
 *
 * @returns With nothing to train: no steps, no files, digest null.
 * @throws {TrainerError} `trainer.cancelled` when `signal` aborts; `trainer.reward_not_finite`, `trainer.token_out_of_range`,
 *   `trainer.logprob_invalid`, `trainer.render_failed`, `trainer.config_invalid`, `trainer.non_finite`, `trainer.checkpoint_unreadable`,
 *   `trainer.disk_full`, `trainer.internal`. Whatever is thrown, `outputDirectory` does not exist.
 */
export async function runTrainingJob(job: TrainingJob, parts: TrainingParts): Promise<TrainingResult> {
  const watched = { ...parts, emit: withStepWarnings(parts.emit, job.config) };
  return await withTrainerErrors(job, watched, () => train(job, watched));
}

async function train(job: TrainingJob, parts: TrainingParts): Promise<TrainingResult> {
  const { config } = job;
  const { model, template, gate, signal, emit } = parts;
  requireSameLora(job, model);

  const started = performance.now();
  validateGroups(job.groups, model.architecture.vocabSize, config.allowTrainingWithoutLogprobs);
  const { sequences, groupSizes, maxTokens, report } = await trainingSequences(job.groups, {
    template,
    config,
    signal,
  });
  const steps = trainingSteps(sequences, { groupSizes, maxTokens, config, seed: job.seed });
  const rows = steps.flatMap((step) => step.rows);
  const ofTheJob: Record<string, number> = {
    ...jobMetrics(job.groups, report),
    seconds_prepare: (performance.now() - started) / 1000,
  };
  const sizes = { numSteps: steps.length, numRows: rows.length, maxTokens };
  emit({ kind: 'training_started', numGradientSteps: steps.length, data: startedData(report, sizes) });
  const { architecture } = model;
  const { sampling } = report;
  for (const warning of startWarnings(job.groups, { config, architecture, sampling }))
    emit({ kind: 'warning', warning });
  if (rows.length === 0) return { numGradientSteps: 0, digest: null, metrics: ofTheJob };

  const start = startingPoint(job, model, 'rl');
  // A fresh adapter is the base model.
  const distance = job.startFrom === null ? { kl_base: 0 } : await baseDistance(rows[0]!, parts);
  Object.assign(ofTheJob, distance);
  const prepared = performance.now();
  const precalculated = config.precalculateLogprobs ? await logprobsOf(rows, parts) : null;
  if (precalculated !== null) ofTheJob['seconds_precalculate'] = (performance.now() - prepared) / 1000;
  const reference = referenceAdapter(job, model);

  const { seed, referenceFrom = null } = job;
  const settings = {
    config,
    seed,
    reference: referenceFrom === null ? null : checkpointDigest(referenceFrom),
    rowsOfSteps: steps.map((step) => step.rows.length),
  };
  const fingerprint = jobFingerprint(job, settings, rows.flatMap(arraysOf));
  const takeStep = async (index: number, optimizer: OptimizerState) => {
    const step = steps[index]!;
    const stepStarted = performance.now();
    const others: OtherLogprobs[] = [];
    for (const row of step.rows) {
      others.push({
        precalculated: precalculated?.get(row) ?? null,
        reference: hasReference(config) ? await referenceLogprobs(row.row, reference, parts) : null,
      });
    }
    const referenceSeconds = (performance.now() - stepStarted) / 1000;
    const metrics = await policyStep(step, others, { model, config, optimizer, gate, signal });
    return {
      ...ofTheJob,
      ...metrics,
      ...(hasReference(config) ? { seconds_reference: referenceSeconds } : {}),
    };
  };
  return await runSteps(job, parts, { numSteps: steps.length, fingerprint, optimizer: start, step: takeStep });
}

/** Log-probabilities of each row under the weights as they are, [N]. */
async function logprobsOf(
  rows: readonly TrainingRow[],
  { model, gate, signal }: TrainingParts,
): Promise<ReadonlyMap<TrainingRow, Float32Array>> {
  const results = new Map<TrainingRow, Float32Array>();
  for (const row of rows) {
    const { logprobs } = await model.forward(row.row, { gate, signal });
    if (!logprobs.every(Number.isFinite)) {
      throw new TrainerError('trainer.non_finite', 'a recomputed log-probability is not finite');
    }
    results.set(row, logprobs.slice());
  }
  return results;
}

function arraysOf({ row, sampledLogprobs, advantages, weights }: TrainingRow): ArrayBufferView[] {
  return [row.tokenIds, row.parents, row.sources, row.targets, sampledLogprobs, advantages, weights];
}
