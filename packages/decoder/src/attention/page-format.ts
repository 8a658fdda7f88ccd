/** Tokens of a page. Four vectors of keys, so that a score is a lane and no sum goes across lanes. */
export const PAGE_TOKENS = 16;
/** Most queries of a tile: their scores of a page lie behind each other, whether all are in use or not. */
export const TILE_QUERIES = 24;
/** D must be a multiple of it. */
export const HEAD_GRANULARITY = 4;

/** Scores of one query in a page. */
export const SCORE_BYTES = PAGE_TOKENS * 4;
/** Scores of a tile in a page. */
export const PAGE_SCORE_BYTES = TILE_QUERIES * SCORE_BYTES;

/**
 * Keys whose values are summed by themselves, and then added to the sum of those before: as MLAS cuts a product of [n, keys] and [keys, D] (its `MlasSgemmOperation`),
 * so that such a product has the bits of the steps over pages. A multiple of {@link PAGE_TOKENS}.
 */
export function partTokens(headSize: number): number {
  let [columns, tokens] = [128, 128];
  for (; columns > 16 && columns / 2 >= headSize; columns /= 2) tokens *= 2;
  return tokens;
}
