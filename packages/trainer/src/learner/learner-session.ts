/**
 * The seam between what training is (advantages, packing, objectives, steps, snapshots, metrics, warnings: above) and what computes and keeps
 * an adapter (below): the model in this process, or a service elsewhere.
 *
 * Above it are token ids, log-probabilities and ∂loss/∂logprob; below it is whatever makes the one of the other. Paths, graphs and
 * protocols of a learner do not show.
 */
import type { LinearName, LoraConfig } from '@trainyard/transformer';
import type { PackedRow } from '../model/policy-model.ts';
import type { JobKind, OptimizerConfig } from '../optimizer/adamw.ts';

/** Capabilities of a learner. A job that needs more is refused before its first step; see `requireCapabilities`. */
export interface LearnerCapabilities {
  /** Objectives that it can be trained on, by name; `'any'` where `backward` takes every ∂loss/∂logprob. */
  readonly losses: 'any' | readonly string[];
  /** Linear layers that can carry an adapter. */
  readonly targets: readonly LinearName[];
  /** The sets of those layers that an adapter can be on; `'any'` of them. */
  readonly targetSets: 'any' | readonly (readonly LinearName[])[];
  /** Largest inner dimension of an adapter. */
  readonly maxRank: number;
  /** The only alpha of its adapters; null: any. */
  readonly alpha: number | null;
  /** Whether `forward` tells entropies, and whether `backward` takes a gradient of them, too. */
  readonly entropies: 'none' | 'values' | 'gradients';
  /** Which weights besides the trained ones `forward` computes under: none, the base model's, or those of any saved version as well. */
  readonly reference: 'none' | 'base' | 'versions';
  /** Whether rows are computed under the masks, shifts and temperatures that their tokens were drawn by. */
  readonly replay: boolean;
  /** Rows of one `forward` that one `backward` can follow. */
  readonly maxKeptRows: number;
  /** Size of the random half of a fresh adapter, over that of `initialLoraParameters`; 1: alike. At one rate it moves the model so many times as far. */
  readonly initialScale: number;
}

/** Facts about the model that an adapter belongs to. */
export interface LearnerModel {
  /** Name of the architecture as in GGUF: `llama`, `qwen2`, `qwen3`. */
  readonly name: string;
  readonly hiddenSize: number;
  readonly vocabSize: number;
}

export interface CallOptions {
  /** Aborted: the call ends with `trainer.cancelled` within milliseconds, and nothing is left half-done that shows. */
  readonly signal?: AbortSignal;
}

export interface LearnerForwardOptions extends CallOptions {
  /** The weights to compute under. Default: those being trained. */
  readonly under?: 'trained' | 'base' | { readonly version: string };
  /** State to keep for a `backward`, which must then come before the next `forward`. Default: none. */
  readonly keep?: 'nothing' | 'gradients' | 'entropyGradients';
}

/** Result for one row with N trained tokens. Owned by the caller. */
export interface RowForward {
  /** [N] natural-log probability of each trained token: at temperature 1, or as the row's `replay` has it. */
  readonly logprobs: Float32Array;
  /** [N] entropy in nats of the distribution that each trained token was drawn from; null where the learner does not tell. */
  readonly entropies: Float32Array | null;
}

/** Gradients of one row with N trained tokens. */
export interface RowBackward {
  /** [N] ∂loss/∂logprob. The loss is a plain sum over tokens and rows: whatever is averaged is averaged in here. */
  readonly lossGradient: Float32Array;
  /** [N] ∂loss/∂entropy; null: none. */
  readonly entropyGradient: Float32Array | null;
}

/** An adapter that was saved, with its optimizer's state. It never changes. */
export interface AdapterVersion {
  /** As it was given to `save`; means something to the learner alone. */
  readonly name: string;
  /**
   * sha256 of the adapter's weights and scale in a file of PEFT, in hex: adapters that compute otherwise have other digests. Null for a version that
   * is not served, of a learner elsewhere, which has not seen its weights.
   */
  readonly digest: string | null;
  /** Bytes that `save` wrote; absent where the learner does not tell it. */
  readonly sizeBytes?: number;
}

/** Measures of an optimizer step. */
export interface StepReport {
  /** Norm of the gradient before it was clipped; null where the learner does not tell. */
  readonly gradNorm: number | null;
  /** Counts of the step's passes that only the learner knows, by names for the metrics of a gradient step. Default: none. */
  readonly measures?: Readonly<Record<string, number>>;
}

export interface LoadOptions {
  /** The kind of job that the coming steps belong to: momentum gathered under another one is dropped. */
  readonly jobKind: JobKind;
  /** The optimizer starts afresh in any case. Default false. */
  readonly withFreshOptimizer?: boolean;
}

/**
 * An adapter in training. Calls must not overlap.
 *
 * Every failure is a `TrainerError`, whose `retry` says what a caller can do about it: nothing; open a session anew and load the last saved
 * version (`'resume'`: the learner is gone, or lost its state); or the same later (`'wait'`).
 */
export interface LearnerSession {
  readonly model: LearnerModel;
  readonly lora: LoraConfig;
  readonly capabilities: LearnerCapabilities;
  /** Optimizer steps behind the weights, since the optimizer was fresh. */
  readonly numSteps: number;

  /**
   * @param rows with `keep`, at most `capabilities.maxKeptRows`
   * @throws {TrainerError} `trainer.token_out_of_range`, `trainer.cancelled`; `trainer.checkpoint_unreadable` for a version to compute under
   */
  forward(rows: readonly PackedRow[], options?: LearnerForwardOptions): Promise<readonly RowForward[]>;

  /**
   * Adds the gradient to what has gathered since the last step. When it fails, what has gathered is lost.
   *
   * A learner elsewhere may resolve once it has taken the work on, so that the next call goes out behind it: what then goes wrong rejects a
   * later call, the `step` at the latest.
   *
   * @param gradients of each row of the last `forward`, which must have kept what it takes; used up by this call
   * @throws {TrainerError} `trainer.cancelled`
   */
  backward(gradients: readonly RowBackward[], options?: CallOptions): Promise<void>;

  /**
   * Clips what has gathered to a global norm, takes one AdamW step on it, and begins to gather anew.
   *
   * @throws {TrainerError} `trainer.non_finite` before any weight changed, or after a step that made one infinite
   */
  step(config: OptimizerConfig, options?: CallOptions): Promise<StepReport>;

  /**
   * Saves the weights and the optimizer's state; whole or not at all, replacing what has the name.
   *
   * @param options.isServed false: for `load` alone, which may be quicker. Default true: for sampling, too.
   * @param options.metrics kept beside it
   * @throws {TrainerError} `trainer.disk_full`; `trainer.non_finite` for weights to be served by which the model computes no numbers, where the learner can tell
   */
  save(
    name: string,
    options?: { readonly isServed?: boolean; readonly metrics?: Readonly<Record<string, number>> },
  ): Promise<AdapterVersion>;

  /**
   * @returns null when there is none of that name
   * @throws {TrainerError} `trainer.checkpoint_unreadable`
   */
  find(name: string): Promise<AdapterVersion | null>;

  /**
   * Goes on from a saved version, or from a fresh adapter, which changes nothing of the base model. What had gathered is dropped.
   *
   * @param name null: fresh, from `lora.initSeed`
   * @throws {TrainerError} `trainer.checkpoint_unreadable`: missing, damaged or of another shape; nothing is changed then
   */
  load(name: string | null, options: LoadOptions): Promise<void>;

  /** Removes a saved version; none of that name is fine. */
  discard(name: string): Promise<void>;

  close(): Promise<void>;
}
