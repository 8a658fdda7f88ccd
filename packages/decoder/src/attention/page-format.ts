/** Tokens per page. Four vectors of keys, so that a score is a lane and no sum goes across lanes. */
export const PAGE_TOKENS = 16;
/** A page reserves scores for all queries of a tile, used or not. */
export const TILE_QUERIES = 24;
/** Divisor of D. */
export const HEAD_GRANULARITY = 4;

export const SCORE_BYTES = PAGE_TOKENS * 4;
export const PAGE_SCORE_BYTES = TILE_QUERIES * SCORE_BYTES;

/**
 * Keys whose values are summed separately. MLAS cuts a product of [n, keys] and [keys, D] the same way
 * (`MlasSgemmOperation`), so both have equal bits. A multiple of {@link PAGE_TOKENS}.
 */
export function partTokens(headSize: number): number {
  let [columns, tokens] = [128, 128];
  for (; columns > 16 && columns / 2 >= headSize; columns /= 2) tokens *= 2;
  return tokens;
}
