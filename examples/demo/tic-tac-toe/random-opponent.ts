/**
 * Random moves, determined by the seed and the other side's moves.
 * @param seed any whole number
 */
export function randomOpponent(seed: number): (freeSquares: readonly number[]) => number {
  let state = (seed * 2_654_435_761 + 1) >>> 0;
  return (freeSquares) => {
    // xorshift32 (Marsaglia 2003); 0 is its only fixed point.
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    state >>>= 0;
    return freeSquares[state % freeSquares.length]!;
  };
}
