/**
 * The seam between the mathematics of training (advantages, losses, optimizer) and what computes the model.
 *
 * The mathematics sees log-probabilities of trained tokens and hands back ∂loss/∂logprob; it never sees an activation.
 */

import type { Architecture, LinearName, LoraConfig, LoraHalf } from '@trainyard/transformer';
import type { RowReplay } from './row-replay.ts';

export interface LoraTensor {
  /** `layers.3.q.a`: layer, linear layer, half. */
  readonly name: `layers.${number}.${LinearName}.${LoraHalf}`;
  readonly layer: number;
  readonly linear: LinearName;
  readonly half: LoraHalf;
  /** `a`: [rank, in]; `b`: [out, rank]; row-major, as PEFT stores them. */
  readonly dims: readonly [number, number];
  /** Updated in place by the optimizer; read anew by every forward. */
  readonly value: Float32Array;
  /** ∂loss/∂value, summed over every `backward` since the last time the caller cleared it. Same shape as `value`. */
  readonly gradient: Float32Array;
}

export interface LoraParameters {
  readonly config: LoraConfig;
  /** Ordered by layer, then as in `config.targets`, then a before b. */
  readonly tensors: readonly LoraTensor[];
}

/** Several token sequences in one row; a prefix they share appears once. */
export interface PackedRow {
  /** [T] token ids in depth-first order of the trie (or forest) of sequences. */
  readonly tokenIds: Int32Array;
  /** [T] depth of each token in its own sequence: 0 at a root. */
  readonly positions: Int32Array;
  /** [T] row index of the token before it in the same sequence, always smaller than its own; -1 at a root. */
  readonly parents: Int32Array;
  /** [N] row index of the token whose output predicts trained token i. */
  readonly sources: Int32Array;
  /** [N] id of trained token i. */
  readonly targets: Int32Array;
  /** How the trained tokens were drawn; absent or null: all as the model says. */
  readonly replay?: RowReplay | null;
}

/** Shares the processor cores with sampling. */
export interface ComputeGate {
  /** Resolves when the cores are ours, until `release()`. Rejects when `signal` aborts. */
  acquire(signal?: AbortSignal): Promise<void>;
  release(): void;
  /** Whether somebody waits for the cores: who holds them releases them soon, and acquires them anew. */
  readonly isWanted: boolean;
}

export interface ComputeOptions {
  /** Passed before the first graph run, and again whenever somebody waits for the cores. Absent: the cores are always ours. */
  readonly gate?: ComputeGate;
  /** Checked between graph runs; aborted → `trainer.cancelled`. */
  readonly signal?: AbortSignal;
}

export interface ForwardOptions extends ComputeOptions {
  /** Compute the base model alone, as if the adapter were zero (the reference policy). Default false. */
  readonly withoutAdapter?: boolean;
  /** Keep what `backward` needs. Default false. */
  readonly keepForBackward?: boolean;
  /** Keep what a gradient of the entropies needs, too: one more product over the vocabulary. Default false. */
  readonly keepForEntropy?: boolean;
}

export interface BackwardOptions extends ComputeOptions {
  /** [N] ∂loss/∂entropy of the last `forward`, which must have had `keepForEntropy`. Default: none. */
  readonly entropyGradient?: Float32Array;
}

export interface ForwardResult {
  /** [N] natural-log probability of each trained token: at temperature 1, or as the row's `replay` has it. */
  readonly logprobs: Float32Array;
  /** [N] entropy in nats of the distribution each trained token was drawn from. */
  readonly entropies: Float32Array;
}

/** A language model with a trainable LoRA adapter. Calls must not overlap. */
export interface PolicyModel {
  readonly lora: LoraParameters;
  /**
   * Log-probabilities of the row's trained tokens. A row with N = 0 gives empty arrays.
   * @throws {TrainerError} `trainer.token_out_of_range`, `trainer.cancelled`
   */
  forward(row: PackedRow, options?: ForwardOptions): Promise<ForwardResult>;
  /**
   * Adds ∂loss/∂value to the `gradient` of every adapter tensor.
   *
   * @param lossGradient [N] ∂loss/∂logprob of the last `forward`, which must have had `keepForBackward`; it is used up by this call.
   * @throws {TrainerError} `trainer.cancelled` (gradients are then partial: clear them)
   */
  backward(lossGradient: Float32Array, options?: BackwardOptions): Promise<void>;
  close(): void;
}

/** A policy and what it is made of, which the adapter files have to say. */
export interface TrainablePolicy extends PolicyModel {
  readonly architecture: Architecture;
}
