/**
 * Interface between the mathematics of training (advantages, losses, optimizer) and the computation of the
 * model. The mathematics reads log-probabilities of trained tokens and returns ∂loss/∂logprob; it never sees an
 * activation.
 */

import type { Architecture, LinearName, LoraConfig, LoraHalf } from '@trainyard/transformer';
import type { RowReplay } from './row-replay.ts';

export interface LoraTensor {
  /** `layers.3.q.a`: layer, linear layer, half. */
  readonly name: `layers.${number}.${LinearName}.${LoraHalf}`;
  readonly layer: number;
  readonly linear: LinearName;
  readonly half: LoraHalf;
  /** `a`: [rank, in]; `b`: [out, rank]; row-major, as in PEFT. */
  readonly dims: readonly [number, number];
  /** Updated in place by the optimizer; every forward reads it again. */
  readonly value: Float32Array;
  /** ∂loss/∂value, summed over every `backward` since the caller last cleared it. Same shape as `value`. */
  readonly gradient: Float32Array;
}

export interface LoraParameters {
  readonly config: LoraConfig;
  /** Ordered by layer, then as in `config.targets`, then a before b. */
  readonly tensors: readonly LoraTensor[];
}

/** Several token sequences in one row; shared prefixes appear once. */
export interface PackedRow {
  /** [T] token ids in depth-first order of the trie (or forest) of sequences. */
  readonly tokenIds: Int32Array;
  /** [T] depth of each token in its own sequence: 0 at a root. */
  readonly positions: Int32Array;
  /** [T] row index of the previous token in the same sequence, always smaller; -1 at a root. */
  readonly parents: Int32Array;
  /** [N] row index of the token whose output predicts trained token i. */
  readonly sources: Int32Array;
  /** [N] id of trained token i. */
  readonly targets: Int32Array;
  /** Replay of the trained tokens' sampling; absent or null: all drawn plainly from the model. */
  readonly replay?: RowReplay | null;
}

/** Shares the processor cores with sampling. */
export interface ComputeGate {
  /** Resolves when the caller has the cores, until `release()`. Rejects when `signal` aborts. */
  acquire(signal?: AbortSignal): Promise<void>;
  release(): void;
  /** True if another user waits for the cores: the holder should soon release and reacquire them. */
  readonly isWanted: boolean;
}

export interface ComputeOptions {
  /**
   * Passed before the first graph run, and again when another user waits for the cores. Absent: the cores are
   * always available.
   */
  readonly gate?: ComputeGate;
  /** Checked between graph runs; an abort gives `trainer.cancelled`. */
  readonly signal?: AbortSignal;
}

export interface ForwardOptions extends ComputeOptions {
  /** True to compute only the base model, as if the adapter were zero (the reference policy). Default false. */
  readonly withoutAdapter?: boolean;
  /** True to keep the state for `backward`. Default false. */
  readonly keepForBackward?: boolean;
  /**
   * True to also keep the state for a gradient of the entropies: one more product with the vocabulary. Default
   * false.
   */
  readonly keepForEntropy?: boolean;
}

export interface BackwardOptions extends ComputeOptions {
  /** [N] ∂loss/∂entropy of the last `forward`, which must have had `keepForEntropy`. Default: none. */
  readonly entropyGradient?: Float32Array;
}

export interface ForwardResult {
  /** [N] natural-log probability of each trained token: at temperature 1, or under the row's `replay`. */
  readonly logprobs: Float32Array;
  /** [N] entropy in nats of the distribution of each trained token. */
  readonly entropies: Float32Array;
}

/** A language model with a trainable LoRA adapter. Calls must not overlap. */
export interface PolicyModel {
  readonly lora: LoraParameters;
  /**
   * Log-probabilities of the row's trained tokens. A row with N = 0 gives empty arrays.
   *
   * @throws {TrainerError} `trainer.token_out_of_range`, `trainer.cancelled`
   */
  forward(row: PackedRow, options?: ForwardOptions): Promise<ForwardResult>;
  /**
   * Adds ∂loss/∂value to the `gradient` of every adapter tensor.
   *
   * @param lossGradient [N] ∂loss/∂logprob of the last `forward`, which must have had `keepForBackward`; consumed
   * by this call
   * @throws {TrainerError} `trainer.cancelled` (gradients are then partial: clear them)
   */
  backward(lossGradient: Float32Array, options?: BackwardOptions): Promise<void>;
  close(): void;
}

/** A policy with its architecture, which adapter files need. */
export interface TrainablePolicy extends PolicyModel {
  readonly architecture: Architecture;
}
