/**
 * Interface between training (above: advantages, packing, objectives, steps, snapshots, metrics, warnings) and
 * the computation and storage of an adapter (below: in this process, or a remote service). Above are token ids,
 * log-probabilities and ∂loss/∂logprob; paths, graphs and protocols do not show.
 */
import type { LinearName, LoraConfig } from '@trainyard/transformer';
import type { PackedRow } from '../model/policy-model.ts';
import type { JobKind, OptimizerConfig } from '../optimizer/adamw.ts';

/** A job that needs more is refused before its first step; see `requireCapabilities`. */
export interface LearnerCapabilities {
  /** Supported objectives; `'any'` if `backward` takes every ∂loss/∂logprob. */
  readonly losses: 'any' | readonly string[];
  /** Layers that can have an adapter. */
  readonly targets: readonly LinearName[];
  /** Supported sets of those layers. */
  readonly targetSets: 'any' | readonly (readonly LinearName[])[];
  /** Largest inner dimension of an adapter. */
  readonly maxRank: number;
  /** The only alpha of its adapters; null: any. */
  readonly alpha: number | null;
  /** False: all modules have one rank and the scale alpha / rank. */
  readonly hasOwnShapes: boolean;
  /** None, values from `forward`, or also gradients in `backward`. */
  readonly entropies: 'none' | 'values' | 'gradients';
  /** None, the base model's, or also those of any saved version. */
  readonly reference: 'none' | 'base' | 'versions';
  /** Rows are computed with the masks, shifts and temperatures of their tokens' sampling. */
  readonly replay: boolean;
  /** Rows of a `forward` that a `backward` can follow. */
  readonly maxKeptRows: number;
  /**
   * Random half of a fresh adapter relative to `initialLoraParameters`. At equal rates it moves the model by that
   * factor.
   */
  readonly initialScale: number;
}

export interface LearnerModel {
  /** Architecture as in GGUF: `llama`, `qwen2`, `gemma3`. */
  readonly name: string;
  readonly hiddenSize: number;
  readonly vocabSize: number;
}

export interface CallOptions {
  /** An abort ends the call with `trainer.cancelled` within milliseconds, without visible partial results. */
  readonly signal?: AbortSignal;
}

export interface LearnerForwardOptions extends CallOptions {
  /** Default: the weights being trained. */
  readonly under?: 'trained' | 'base' | { readonly version: string };
  /** A `backward` must come before the next `forward`. Default: none. */
  readonly keep?: 'nothing' | 'gradients' | 'entropyGradients';
}

/** Owned by the caller. */
export interface RowForward {
  /** [N] natural-log, at temperature 1, or under the row's `replay`. */
  readonly logprobs: Float32Array;
  /** [N] in nats; null if the learner does not report it. */
  readonly entropies: Float32Array | null;
}

/** Gradients of one row with N trained tokens. */
export interface RowBackward {
  /** [N] ∂loss/∂logprob; the loss is a plain sum over tokens and rows, so averages are included here. */
  readonly lossGradient: Float32Array;
  /** [N] ∂loss/∂entropy; null: none. */
  readonly entropyGradient: Float32Array | null;
}

/** Immutable adapter with its optimizer's state. */
export interface AdapterVersion {
  /** Meaningful only to the learner. */
  readonly name: string;
  /**
   * sha256 of weights and scale in a PEFT file, hex. Null for an unserved version of a remote learner, which has
   * not seen its weights.
   */
  readonly digest: string | null;
  /** Absent if the learner does not report them. */
  readonly sizeBytes?: number;
}

/** Measures of an optimizer step. */
export interface StepReport {
  /** Norm before clipping; null if the learner does not report it. */
  readonly gradNorm: number | null;
  /** Learner-specific counts, by metric name. Default: none. */
  readonly measures?: Readonly<Record<string, number>>;
}

export interface LoadOptions {
  /** Momentum of another kind is dropped. */
  readonly jobKind: JobKind;
  /** Default false. */
  readonly withFreshOptimizer?: boolean;
}

/**
 * An adapter in training. Calls must not overlap. Every failure is a `TrainerError` whose `retry` gives the
 * remedy: none; open a new session and load the last saved version (`'resume'`: the learner is gone, or lost its
 * state); or retry later (`'wait'`).
 */
export interface LearnerSession {
  readonly model: LearnerModel;
  readonly lora: LoraConfig;
  readonly capabilities: LearnerCapabilities;
  /** Optimizer steps since it was fresh. */
  readonly numSteps: number;

  /**
   * @param rows with `keep`, at most `capabilities.maxKeptRows`
   * @throws {TrainerError} `trainer.token_out_of_range`, `trainer.cancelled`; `trainer.checkpoint_unreadable` for
   * a reference version
   */
  forward(rows: readonly PackedRow[], options?: LearnerForwardOptions): Promise<readonly RowForward[]>;

  /**
   * Adds gradients to those accumulated since the last step; a failure loses them all. A remote learner may
   * resolve before the work is done; later errors then reject a later call, the `step` at the latest.
   *
   * @param gradients of each row of the last `forward`, which must have kept the state; consumed by this call
   * @throws {TrainerError} `trainer.cancelled`
   */
  backward(gradients: readonly RowBackward[], options?: CallOptions): Promise<void>;

  /**
   * Clips the accumulated gradient to a global norm, takes one AdamW step, and clears it.
   *
   * @throws {TrainerError} `trainer.non_finite` before any weight changed, or after a step that made one infinite
   */
  step(config: OptimizerConfig, options?: CallOptions): Promise<StepReport>;

  /**
   * Saves completely or not at all, replacing a version of that name.
   *
   * @param options.isServed false: only for `load`, which may be faster. Default true: also for sampling.
   * @param options.metrics stored with it
   * @throws {TrainerError} `trainer.disk_full`; `trainer.non_finite` for served weights that give NaN, if the
   * learner can detect it
   */
  save(
    name: string,
    options?: { readonly isServed?: boolean; readonly metrics?: Readonly<Record<string, number>> },
  ): Promise<AdapterVersion>;

  /** @returns null if there is none of that name @throws {TrainerError} `trainer.checkpoint_unreadable` */
  find(name: string): Promise<AdapterVersion | null>;

  /**
   * Continues from a saved version, or from a fresh adapter, which does not change the base model. Drops
   * accumulated gradients.
   *
   * @param name null: fresh, from `lora.initSeed`
   * @throws {TrainerError} `trainer.checkpoint_unreadable`: missing, damaged or of another shape; nothing is
   * changed then
   */
  load(name: string | null, options: LoadOptions): Promise<void>;

  /** Removes a version, if it exists. */
  discard(name: string): Promise<void>;

  close(): Promise<void>;
}
