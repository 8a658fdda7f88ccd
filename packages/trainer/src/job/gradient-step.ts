import type { TrainingConfig } from '../config/training-config.ts';
import { learningRateAt } from '../optimizer/learning-rate.ts';
import { lossMetrics } from '../objectives/policy-metrics.ts';
import { rowLoss, type LossInput, type StepTotals } from '../objectives/policy-loss.ts';
import type { ComputeGate, ForwardResult, PolicyModel } from '../model/policy-model.ts';
import type { OptimizerState } from '../optimizer/adamw.ts';
import type { TrainingRow } from '../packing/pack.ts';
import { meanGap } from '../objectives/reference-gaps.ts';
import type { TrainingStep } from '../rollouts/training-steps.ts';
import { requireFinite, updateWeights } from '../optimizer/weight-update.ts';

export interface StepParts {
  readonly model: PolicyModel;
  readonly config: TrainingConfig;
  readonly optimizer: OptimizerState;
  readonly gate: ComputeGate;
  readonly signal: AbortSignal;
}

/** Log-probabilities of a row under other weights than those being trained, [N] each. */
export interface OtherLogprobs {
  /** Under the weights the job starts from; null: the sampled ones are the old ones. */
  readonly precalculated: Float32Array | null;
  /** Under the KL reference; null: no KL term. */
  readonly reference: Float32Array | null;
}

/**
 * One gradient step: forward, loss and backward of each row, whose gradients add up; then clip and AdamW. Changes the model's adapter and
 * the optimizer's state. The gradient is that of one row of all the step's histories.
 *
 * @param others For each row.
 * @returns The step's metrics, all finite, over all its tokens. Seconds are wall time, waiting for the cores included; memory is what the
 *   process held at most.
 * @throws {TrainerError} `trainer.non_finite` before any weight changed, or after a step that made one infinite; what the model throws
 */
export async function gradientStep(
  step: TrainingStep,
  others: readonly OtherLogprobs[],
  parts: StepParts,
): Promise<Record<string, number>> {
  const { model, config, optimizer, gate, signal } = parts;
  const { tensors } = model.lora;
  for (const { gradient } of tensors) gradient.fill(0);

  const started = performance.now();
  const gapOfStep = step.rows.length === 1 ? null : await meanGapOfRows(step, others, parts);
  let forwardMs = performance.now() - started;
  let backwardMs = 0;
  const losses: StepLosses = { inputs: [], policyLoss: 0, ratios: [], clipped: { low: 0, high: 0 } };
  for (const [index, row] of step.rows.entries()) {
    const rowStarted = performance.now();
    const forward = await model.forward(row.row, {
      gate,
      signal,
      keepForBackward: true,
      keepForEntropy: config.entropyCoef > 0,
    });
    const forwardEnded = performance.now();
    const input = lossInput(row, others[index]!, forward);
    const totals: StepTotals = { numTokens: step.numTokens, meanGap: gapOfStep ?? meanGap([input], config) };
    const { loss, gradient, entropyGradient, ...result } = rowLoss(input, config, totals);
    requireFinite('the loss', [loss]);
    const lossGradient = Float32Array.from(gradient);
    requireFinite('the gradient of the loss', lossGradient);
    await model.backward(lossGradient, {
      gate,
      signal,
      ...(entropyGradient === null ? {} : { entropyGradient: Float32Array.from(entropyGradient) }),
    });
    addLosses(losses, input, result);
    forwardMs += forwardEnded - rowStarted;
    backwardMs += performance.now() - forwardEnded;
  }
  const backwardEnded = performance.now();
  const learningRate = learningRateAt(optimizer.numSteps, step.numHistories, config);
  const norm = await updateWeights(tensors, optimizer, { ...config, learningRate }, { gate, signal });
  const ended = performance.now();
  const numSequenceTokens = step.rows.reduce((total, row) => total + row.numSequenceTokens, 0);
  return {
    ...metricsOf(losses, config),
    grad_norm: norm,
    learning_rate: learningRate,
    num_trainable_tokens: step.numTokens,
    num_trajectories_trained: step.numTrajectories,
    num_histories_trained: step.numHistories,
    num_rows: step.rows.length,
    num_row_tokens: step.rows.reduce((total, { row }) => total + row.tokenIds.length, 0),
    num_sequence_tokens: numSequenceTokens,
    tokens_per_second: (1000 * numSequenceTokens) / (ended - started),
    seconds_forward: forwardMs / 1000,
    seconds_backward: backwardMs / 1000,
    seconds_optimizer: (ended - backwardEnded) / 1000,
    peak_memory_mb: process.resourceUsage().maxRSS / 1024,
  };
}

/**
 * What the KL term compares the tokens of each row with: it needs all rows before the first loss. So a forward pass of each comes before
 * those that are kept for backward, unless the sampled log-probabilities are measured. Null without that term.
 */
async function meanGapOfRows(
  { rows }: TrainingStep,
  others: readonly OtherLogprobs[],
  { model, config, gate, signal }: StepParts,
): Promise<number | null> {
  if (config.klPenaltyCoef === 0) return null;
  const compared: LossInput[] = [];
  for (const [index, row] of rows.entries()) {
    const isKnown = config.klPenaltySource === 'sample' && !row.sampledLogprobs.some(Number.isNaN);
    const logprobs = isKnown ? row.sampledLogprobs : (await model.forward(row.row, { gate, signal })).logprobs.slice();
    compared.push(lossInput(row, others[index]!, { logprobs, entropies: logprobs }));
  }
  return meanGap(compared, config);
}

function lossInput(
  row: TrainingRow,
  other: OtherLogprobs,
  { logprobs, entropies }: Pick<ForwardResult, 'logprobs' | 'entropies'>,
): LossInput {
  return {
    newLogprobs: logprobs,
    sampledLogprobs: row.sampledLogprobs,
    precalculatedLogprobs: other.precalculated,
    refLogprobs: other.reference,
    entropies,
    advantages: row.advantages,
    weights: row.weights,
    histories: row.histories,
  };
}

/** What the rows of a step said, for the metrics of the step. */
interface StepLosses {
  readonly inputs: LossInput[];
  policyLoss: number;
  readonly ratios: Float64Array[];
  readonly clipped: { low: number; high: number };
}

function addLosses(
  losses: StepLosses,
  input: LossInput,
  result: { policyLoss: number; ratios: Float64Array; clipped: { readonly low: number; readonly high: number } },
): void {
  // The model writes the next row over its results.
  losses.inputs.push({ ...input, newLogprobs: input.newLogprobs.slice(), entropies: input.entropies.slice() });
  losses.ratios.push(result.ratios);
  losses.policyLoss += result.policyLoss;
  losses.clipped.low += result.clipped.low;
  losses.clipped.high += result.clipped.high;
}

/** The metrics that one row of all histories would have. */
function metricsOf(losses: StepLosses, config: TrainingConfig): Record<string, number> {
  const { inputs } = losses;
  const all = (of: (input: LossInput) => ArrayLike<number>): Float64Array =>
    Float64Array.from(inputs.flatMap((input) => Array.from(of(input))));
  const hasReference = inputs.every(({ refLogprobs }) => refLogprobs !== null);
  return lossMetrics(
    {
      newLogprobs: all((input) => input.newLogprobs),
      sampledLogprobs: all((input) => input.sampledLogprobs),
      precalculatedLogprobs: null,
      refLogprobs: hasReference ? all((input) => input.refLogprobs!) : null,
      entropies: all((input) => input.entropies),
      advantages: all((input) => input.advantages),
      weights: all((input) => input.weights),
      histories: new Int32Array(0),
      loss: losses.policyLoss,
      ratios: Float64Array.from(losses.ratios.flatMap((ratios) => [...ratios])),
      clipped: losses.clipped,
    },
    config,
  );
}
