/**
 * Interface between the mathematics of training (advantages, losses, optimizer) and the model's computation:
 * log-probabilities of trained tokens against ∂loss/∂logprob, never an activation.
 */

import type { Architecture, LinearName, LoraConfig, LoraHalf, ValueHeads } from '@trainyard/transformer';
import type { RowReplay } from './row-replay.ts';

/** Place and size of a tensor of an adapter. */
export interface LoraShape {
  /** `layers.3.q.a`: layer, linear layer, half. */
  readonly name: `layers.${number}.${LinearName}.${LoraHalf}`;
  readonly layer: number;
  readonly linear: LinearName;
  readonly half: LoraHalf;
  /** `a`: [rank, in]; `b`: [out, rank]; row-major, as in PEFT. */
  readonly dims: readonly [number, number];
  /** Heads that PEFT has in another order; null: none. */
  readonly valueHeads: ValueHeads | null;
}

export interface LoraTensor extends LoraShape {
  /** Updated in place by the optimizer. */
  readonly value: Float32Array;
  /** ∂loss/∂value, summed since the caller last cleared it. */
  readonly gradient: Float32Array;
}

export interface LoraParameters {
  readonly config: LoraConfig;
  /** Ordered by layer, then as in `config.targets`, then a before b. */
  readonly tensors: readonly LoraTensor[];
}

/** Token sequences in one row; shared prefixes appear once. */
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
  /** Absent or null: all drawn plainly from the model. */
  readonly replay?: RowReplay | null;
}

/** Shares the processor cores with sampling. */
export interface ComputeGate {
  /** Resolves when the caller has the cores, until `release()`. Rejects when `signal` aborts. */
  acquire(signal?: AbortSignal): Promise<void>;
  release(): void;
  /** Another user waits for the cores: the holder should soon release and reacquire them. */
  readonly isWanted: boolean;
}

export interface ComputeOptions {
  /** Passed before the first graph run, and when another user waits. Absent: the cores are always available. */
  readonly gate?: ComputeGate;
  /** Checked between graph runs; an abort gives `trainer.cancelled`. */
  readonly signal?: AbortSignal;
}

export interface ForwardOptions extends ComputeOptions {
  /** Computes only the base model, as if the adapter were zero (the reference policy). Default false. */
  readonly withoutAdapter?: boolean;
  /** State for `backward`. Default false. */
  readonly keepForBackward?: boolean;
  /**
   * Experts of each token, [T, K] by layer, as a sampler chose them; null for dense layers. Default: the router
   * chooses, and a token at a near-tie may get another expert than it had for the sampler.
   */
  readonly experts?: readonly (Int32Array | null)[];
  /** State for a gradient of the entropies: one more product with the vocabulary. Default false. */
  readonly keepForEntropy?: boolean;
}

export interface BackwardOptions extends ComputeOptions {
  /** [N] ∂loss/∂entropy; the last `forward` must have had `keepForEntropy`. Default: none. */
  readonly entropyGradient?: Float32Array;
}

export interface ForwardResult {
  /** [N] natural-log, at temperature 1, or under the row's `replay`. */
  readonly logprobs: Float32Array;
  /** [N] in nats. */
  readonly entropies: Float32Array;
}

/** Calls must not overlap. */
export interface PolicyModel {
  readonly lora: LoraParameters;
  /** A row with N = 0 gives empty arrays. @throws {TrainerError} `trainer.token_out_of_range`, `trainer.cancelled` */
  forward(row: PackedRow, options?: ForwardOptions): Promise<ForwardResult>;
  /**
   * Adds to the `gradient` of every adapter tensor.
   *
   * @param lossGradient [N] ∂loss/∂logprob of the last `forward`, which must have had `keepForBackward`; consumed
   * by this call
   * @throws {TrainerError} `trainer.cancelled` (gradients are then partial: clear them)
   */
  backward(lossGradient: Float32Array, options?: BackwardOptions): Promise<void>;
  close(): void;
}

/** Adapter files need the architecture. */
export interface TrainablePolicy extends PolicyModel {
  readonly architecture: Architecture;
}
