import { gradientStep, type StepParts } from '../job/gradient-step.ts';
import { CrossEntropyObjective } from '../objectives/cross-entropy.ts';
import { batchRows, type SftBatch } from './sft-batches.ts';
import type { SftConfig } from './sft-config.ts';

export type SftStepParts = StepParts & { readonly config: SftConfig };

/**
 * A batch without trained tokens changes nothing, not even the optimizer's state.
 *
 * @returns the step's metrics, all finite
 * @throws {TrainerError} as `gradientStep`
 */
export async function sftStep(
  batch: SftBatch,
  learningRate: number,
  parts: SftStepParts,
): Promise<Record<string, number>> {
  const rows = batchRows(batch, parts.config);
  const counts = {
    num_trajectories: batch.numTrajectories,
    num_tokens: rows.reduce((total, { numSequenceTokens }) => total + numSequenceTokens, 0),
    num_trainable_tokens: rows.reduce((total, { row }) => total + row.targets.length, 0),
    num_dropped_trajectories: batch.numDropped,
  };
  if (rows.length === 0) return { loss: 0, learning_rate: learningRate, grad_norm: 0, ...counts, tokens_per_second: 0 };
  const started = performance.now();
  const objective = new CrossEntropyObjective(counts.num_trainable_tokens);
  const { gradNorm, ofLearner } = await gradientStep(
    rows.map(({ row }) => row),
    objective,
    { ...parts.config, learningRate },
    parts,
  );
  const seconds = (performance.now() - started) / 1000;
  return {
    loss: objective.loss,
    learning_rate: learningRate,
    ...(gradNorm === null ? {} : { grad_norm: gradNorm }),
    ...ofLearner,
    ...counts,
    tokens_per_second: counts.num_tokens / seconds,
  };
}
