import type { LinearName } from '@trainyard/trainer';

/**
 * Form in which ∂loss/∂logprob is sent, so that the server's gradient is the plain sum over tokens:
 *
 * - `weights`: cross_entropy with weights -g, for a server that sums.
 * - `advantages`: importance_sampling at ratio 1 with advantages -g, for one that sums only policy losses.
 * - `meanAdvantages`: the same times T · N, for one that averages over a step's N datums their means over T
 *   tokens.
 */
export type GradientRecipe = 'weights' | 'advantages' | 'meanAdvantages';

/** Observed, or from the server's documentation or source. */
export interface TinkerProfile {
  readonly name: string;
  /** Dialect of passes; `probe`: found by an empty request, which has no effect. */
  readonly wire: 'probe' | 'protobuf' | 'json';
  readonly recipe: GradientRecipe;
  /**
   * `step`: by `grad_clip_norm` of the request, a global norm. `measured`: the server ignores that, so the norm is
   * measured on a copy of the model, and the gradient is sent clipped. `server`: always by its own configuration.
   */
  readonly clipping: 'step' | 'measured' | 'server';
  /**
   * Requests whose repeat (same number) gets the same answer: all, only passes and steps, or none. Others are
   * never sent twice.
   */
  readonly remembers: 'everything' | 'gradients' | 'nothing';
  /** The only alpha of its adapters; null: any. */
  readonly alpha: number | null;
  /** Supported sets of layers. */
  readonly targetSets: readonly (readonly LinearName[])[];
  /** Pattern for the largest rank in the refusal of rank 0; null: the server does not report it. */
  readonly rankRefusal: RegExp | null;
  /** Metrics with the norm of a step's gradient; the first present one counts. */
  readonly gradNormMetrics: readonly string[];
  /** Checkpoint name in the address of its archive: bare, or after its kind. */
  readonly archiveName: 'bare' | 'withKind';
  /** Prefix of its keys; null: any or none. */
  readonly keyPrefix: string | null;
  /** Reason against its use as a learner; null: none. */
  readonly refusal: string | null;
  readonly notes: readonly string[];
}

const ATTENTION: readonly LinearName[] = ['q', 'k', 'v', 'o'];
const FEED_FORWARD: readonly LinearName[] = ['gate', 'up', 'down'];

export const ALL_LAYERS: readonly LinearName[] = [...ATTENTION, ...FEED_FORWARD];
/** Layer sets of `train_attn` and `train_mlp`. */
export const LAYER_GROUPS: readonly (readonly LinearName[])[] = [ALL_LAYERS, ATTENTION, FEED_FORWARD];
