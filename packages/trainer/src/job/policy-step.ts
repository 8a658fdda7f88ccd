import { type ComputedConfig, scheduleOf } from '../config/training-config.ts';
import type { LossInput } from '../objectives/loss-input.ts';
import {
  lossInput,
  PolicyStepObjective,
  type ComparedRow,
  type OtherLogprobs,
} from '../objectives/policy-step-objective.ts';
import { meanGap } from '../objectives/reference-gaps.ts';
import { learningRateAt } from '../optimizer/learning-rate.ts';
import type { TrainingStep } from '../rollouts/training-steps.ts';
import { gradientStep, type StepParts } from './gradient-step.ts';
import type { RowValues } from './token-trace.ts';

export type PolicyStepParts = StepParts & {
  readonly config: ComputedConfig;
  /** Gets the values of each row under the step's initial weights. */
  readonly onValues?: (values: readonly RowValues[]) => void;
};

/**
 * The gradient equals that of one row with all the step's histories.
 *
 * @param others for each row
 * @returns the step's metrics, all finite, over all its tokens. Memory is the process's maximum.
 * @throws {TrainerError} as `gradientStep`
 */
export async function policyStep(
  step: TrainingStep,
  others: readonly OtherLogprobs[],
  parts: PolicyStepParts,
): Promise<Record<string, number>> {
  const { config, learner } = parts;
  const rows = step.rows.map((row, index): ComparedRow => ({ row, other: others[index]! }));
  const started = performance.now();
  const comeAtOnce = rows.length <= learner.capabilities.maxKeptRows;
  const meanGapOfStep = comeAtOnce ? null : await meanGapOfRows(rows, parts);
  const secondsCompared = (performance.now() - started) / 1000;
  const objective = new PolicyStepObjective(rows, { config, meanGapOfStep });
  const learningRate = policyLearningRate(learner.numSteps, step.numHistories, config);
  const measures = await gradientStep(
    step.rows.map(({ row }) => row),
    objective,
    { ...config, learningRate },
    parts,
  );
  const ended = performance.now();
  parts.onValues?.(objective.newValues);
  const numSequenceTokens = step.rows.reduce((total, row) => total + row.numSequenceTokens, 0);
  return {
    ...objective.metrics(),
    ...(measures.gradNorm === null ? {} : { grad_norm: measures.gradNorm }),
    ...measures.ofLearner,
    learning_rate: learningRate,
    num_trainable_tokens: step.numTokens,
    num_trajectories_trained: step.numTrajectories,
    num_histories_trained: step.numHistories,
    num_rows: step.rows.length,
    num_row_tokens: step.rows.reduce((total, { row }) => total + row.tokenIds.length, 0),
    num_sequence_tokens: numSequenceTokens,
    tokens_per_second: (1000 * numSequenceTokens) / (ended - started),
    seconds_forward: secondsCompared + measures.secondsForward,
    seconds_backward: measures.secondsBackward,
    seconds_optimizer: measures.secondsOptimizer,
    peak_memory_mb: process.resourceUsage().maxRSS / 1024,
  };
}

/**
 * @param numSteps of the optimizer in total: a schedule spans jobs
 * @param numHistories of the step: the rate is multiplied by histories^power
 */
export function policyLearningRate(numSteps: number, numHistories: number, config: ComputedConfig): number {
  const perHistory = numHistories ** config.numTrajectoriesLearningRateMultiplierPower;
  return learningRateAt(numSteps, scheduleOf(config)) * perHistory;
}

/**
 * Mean gap of the KL term over all rows. It is needed before the first loss, so each row gets an extra forward
 * pass, unless the sampled log-probabilities are compared. Null without that term.
 */
async function meanGapOfRows(
  rows: readonly ComparedRow[],
  { learner, config, signal }: PolicyStepParts,
): Promise<number | null> {
  if (config.klPenaltyCoef === 0) return null;
  const compared: LossInput[] = [];
  for (const compareRow of rows) {
    const { row } = compareRow;
    const isKnown = config.klPenaltySource === 'sample' && !row.sampledLogprobs.some(Number.isNaN);
    const output = isKnown
      ? { logprobs: row.sampledLogprobs, entropies: null }
      : (await learner.forward([row.row], { signal }))[0]!;
    compared.push(lossInput(compareRow, output));
  }
  return meanGap(compared, config);
}
