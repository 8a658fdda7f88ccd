import type { GradientRecipe } from '../profiles/tinker-profile.ts';
import type { Datum, LossName } from '../wire/datum.ts';
import type { UnrolledSequence } from './unroll-rows.ts';

/** A sequence of T tokens with its loss gradient. */
export interface GatheredSequence extends Pick<UnrolledSequence, 'tokens' | 'targets'> {
  /** [T] under the current weights. */
  readonly logprobs: Float32Array;
  /** [T] ∂loss/∂logprob, 0 for untrained tokens. */
  readonly lossGradient: Float32Array;
}

export const LOSS_OF: Readonly<Record<GradientRecipe, LossName>> = {
  weights: 'cross_entropy',
  advantages: 'importance_sampling',
  meanAdvantages: 'importance_sampling',
};

/**
 * Datums whose gradient on the server is Σ factor · ∂loss/∂logprob · ∂logprob/∂weights.
 *
 * @param sequences all of the step
 */
export function gradientDatums(
  sequences: readonly GatheredSequence[],
  { recipe, factor }: { readonly recipe: GradientRecipe; readonly factor: number },
): Datum[] {
  return sequences.map(({ tokens, targets, logprobs, lossGradient }) => {
    const scale = recipe === 'meanAdvantages' ? factor * sequences.length * tokens.length : factor;
    const wanted = lossGradient.map((slope) => -slope * scale);
    const inputs =
      recipe === 'weights'
        ? { target_tokens: targets, weights: wanted }
        : { target_tokens: targets, logprobs, advantages: wanted };
    return { tokens, inputs };
  });
}

/** Requests only log-probabilities. */
export function forwardDatums(sequences: readonly Pick<UnrolledSequence, 'tokens' | 'targets'>[]): Datum[] {
  return sequences.map(({ tokens, targets }) => ({
    tokens,
    inputs: { target_tokens: targets, weights: new Float32Array(tokens.length) },
  }));
}
