import { readAdapter, checkpointDigest } from '../checkpoint/checkpoint.ts';
import type { TrainingConfig } from '../config/training-config.ts';
import { TrainerError } from '../contract/errors.ts';
import { initialLoraParameters } from '../model/lora-parameters.ts';
import type { LoraParameters, PackedRow } from '../model/policy-model.ts';
import type { TrainablePolicy, TrainingJob, TrainingParts } from './training-job.ts';

/** Whether a job compares with a reference: for its KL term, or to report the distance to a step that it names. */
export function hasReference(config: TrainingConfig): boolean {
  return config.klPenaltyCoef > 0 || config.klPenaltyReferenceStep !== null || config.klPenaltyStepLag !== null;
}

/**
 * The adapter of the KL reference; null: the base model, which a fresh adapter equals.
 *
 * @throws {TrainerError} `trainer.checkpoint_unreadable`; `trainer.config_invalid` when a reference step is asked for that the job was
 *   not given the checkpoint of
 */
export function referenceAdapter(job: TrainingJob, model: TrainablePolicy): LoraParameters | null {
  const { klPenaltyReferenceStep, klPenaltyStepLag } = job.config;
  if (!hasReference(job.config)) return null;
  const directory = job.referenceFrom;
  if (directory === null) return null;
  if (directory === undefined) {
    const asksForAStep = (klPenaltyReferenceStep ?? 0) > 0 || klPenaltyStepLag !== null;
    if (!asksForAStep) return null;
    throw new TrainerError(
      'trainer.config_invalid',
      'the checkpoint that `kl_penalty_reference_step` or `kl_penalty_step_lag` asks for was not given',
    );
  }
  const lora = initialLoraParameters(model.architecture, job.lora);
  readAdapter(directory, lora, checkpointDigest(directory));
  return lora;
}

/** Log-probabilities of a row under the reference, [N]. The model's own adapter is back in place afterwards. */
export async function referenceLogprobs(
  row: PackedRow,
  reference: LoraParameters | null,
  parts: TrainingParts,
): Promise<Float32Array> {
  const { model, gate, signal } = parts;
  if (reference === null) return (await model.forward(row, { gate, signal, withoutAdapter: true })).logprobs.slice();
  const own = model.lora.tensors.map(({ value }) => value.slice());
  try {
    model.lora.tensors.forEach(({ value }, i) => value.set(reference.tensors[i]!.value));
    return (await model.forward(row, { gate, signal })).logprobs.slice();
  } finally {
    model.lora.tensors.forEach(({ value }, i) => value.set(own[i]!));
  }
}

/**
 * The step whose adapter is the reference; null: the job has none.
 *
 * @param startStep Step that the job trains on.
 */
export function referenceStep(config: TrainingConfig, startStep: number): number | null {
  if (!hasReference(config)) return null;
  if (config.klPenaltyStepLag !== null) return Math.max(0, startStep - config.klPenaltyStepLag);
  return config.klPenaltyReferenceStep ?? 0;
}
