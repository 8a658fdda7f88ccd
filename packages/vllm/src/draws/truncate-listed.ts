import type { Truncation } from '@trainyard/protocol/fields';

/** A possible token before truncation. */
export interface ScoredToken {
  readonly id: number;
  /** Its logit after shifts, divided by the temperature; any constant may be added to all. */
  readonly score: number;
}

/** Bounds on the unlisted tokens. */
export interface UnlistedTokens {
  /** Upper bound of their scores; -Infinity if there are none. */
  readonly maxScore: number;
  /** Bounds of Σ exp(score) over them. */
  readonly minMass: number;
  readonly maxMass: number;
}

/**
 * Tokens that vLLM keeps after `min_p`, `top_k` and `top_p`, in this order.
 *
 * @param listed the most likely tokens, and the sampled one
 * @returns null if an unlisted token may be among them, or the listed ones do not decide
 */
export function truncateListed(
  listed: readonly ScoredToken[],
  { minP, topK, topP }: Truncation,
  unlisted: UnlistedTokens,
): readonly ScoredToken[] | null {
  let kept = listed.toSorted((a, b) => b.score - a.score);
  const isListed = (least: number): boolean => unlisted.maxScore < least;
  let isWhole = unlisted.maxScore === -Infinity;
  if (minP > 0) {
    const least = kept[0]!.score + Math.log(minP);
    kept = kept.filter(({ score }) => score >= least);
    isWhole ||= isListed(least);
  }
  if (topK > 0 && (topK <= kept.length || !isWhole)) {
    const last = kept[topK - 1];
    if (last === undefined) return null;
    if (!isWhole && !isListed(last.score)) return null;
    // vLLM keeps all that equal the k-th.
    kept = kept.filter(({ score }) => score >= last.score);
    isWhole = true;
  }
  if (topP < 1) {
    const { minMass, maxMass } = isWhole ? NO_MASS : unlisted;
    const sizes = [minMass, maxMass].map((mass) => prefixLength(kept, topP, mass));
    const [length] = sizes;
    if (length === undefined || length !== sizes[1] || length < 0) return null;
    if (!isWhole && !isListed(kept[length - 1]!.score)) return null;
    return kept.slice(0, length);
  }
  return isWhole ? kept : null;
}

const NO_MASS = { minMass: 0, maxMass: 0 } as const;

/** Number of most likely tokens that reach the share `topP` of all mass; -1 if the listed ones do not. */
function prefixLength(kept: readonly ScoredToken[], topP: number, unlistedMass: number): number {
  const masses = kept.map(({ score }) => Math.exp(score - kept[0]!.score));
  const total = masses.reduce((sum, mass) => sum + mass, 0) + unlistedMass / Math.exp(kept[0]!.score);
  let sum = 0;
  const at = masses.findIndex((mass) => (sum += mass) >= topP * total);
  return at === -1 ? -1 : at + 1;
}
