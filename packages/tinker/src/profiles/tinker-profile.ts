import type { LinearName } from '@trainyard/trainer';

/**
 * How ∂loss/∂logprob goes to a server, so that the gradient of its adapter is the plain sum over tokens:
 *
 * - `weights`: cross_entropy with weights -g, where a server sums.
 * - `advantages`: importance_sampling at ratio 1 with advantages -g, where it sums policy losses alone.
 * - `meanAdvantages`: the same times T · N, where it takes the mean over the N datums of a step of each one's mean over its T tokens.
 */
export type GradientRecipe = 'weights' | 'advantages' | 'meanAdvantages';

/** A server of the Tinker protocol, as far as it differs from others. Everything here was seen, or is said in its documentation or source. */
export interface TinkerProfile {
  readonly name: string;
  /** The dialect of passes; `probe`: asked by an empty request, which has no effect. */
  readonly wire: 'probe' | 'protobuf' | 'json';
  readonly recipe: GradientRecipe;
  /**
   * Clipping of a step to a global norm: `step`: by `grad_clip_norm` of the request. `measured`: it ignores that, so that the norm is measured on a
   * copy of the model before, and the gradient comes clipped. `server`: by its own configuration, whatever is asked for.
   */
  readonly clipping: 'step' | 'measured' | 'server';
  /** Which requests are answered as before when their number comes again: all, passes and steps alone, or none. Others are never sent twice. */
  readonly remembers: 'everything' | 'gradients' | 'nothing';
  /** The only alpha of its adapters; null: any. */
  readonly alpha: number | null;
  /** The sets of layers that its adapters can have. */
  readonly targetSets: readonly (readonly LinearName[])[];
  /** How a server that refuses an adapter of rank 0 names its largest rank; null: it tells none. */
  readonly rankRefusal: RegExp | null;
  /** Metrics of a step that tell the norm of its gradient, the first that is there. */
  readonly gradNormMetrics: readonly string[];
  /** The name of a checkpoint in the address of its archive: alone, or behind its kind. */
  readonly archiveName: 'bare' | 'withKind';
  /** Beginning of its keys; null: any or none. */
  readonly keyPrefix: string | null;
  /** Why it cannot be a learner; null: it can. */
  readonly refusal: string | null;
  /** Lines for whoever starts the service. */
  readonly notes: readonly string[];
}

const ATTENTION: readonly LinearName[] = ['q', 'k', 'v', 'o'];
const FEED_FORWARD: readonly LinearName[] = ['gate', 'up', 'down'];

/** All linear layers of a block. */
export const ALL_LAYERS: readonly LinearName[] = [...ATTENTION, ...FEED_FORWARD];
/** By `train_attn` and `train_mlp`. */
export const LAYER_GROUPS: readonly (readonly LinearName[])[] = [ALL_LAYERS, ATTENTION, FEED_FORWARD];
