import type { Architecture } from './architecture.ts';

/**
 * Rotary position tables for `rope(x) = x · cos + swapHalves(x) · sin` (RoFormer, arXiv 2104.09864, half-rotation layout).
 *
 * @param factors [D/2] divisors of the frequencies, or null
 * @returns cos and sin, [T, D] row-major; the first half of each row of sin is negated.
 */
export function ropeTables(
  positions: Int32Array,
  architecture: Architecture,
  factors: Float32Array | null,
): { cos: Float32Array; sin: Float32Array } {
  const { headSize, ropeBase, ropeScale } = architecture;
  const half = headSize / 2;
  const frequencies = Float64Array.from(
    { length: half },
    (_, j) => ropeBase ** (-j / half) / (factors?.[j] ?? 1) / ropeScale,
  );
  const cos = new Float32Array(positions.length * headSize);
  const sin = new Float32Array(positions.length * headSize);
  positions.forEach((position, token) => {
    for (let j = 0; j < half; j++) {
      const angle = position * frequencies[j]!;
      const first = token * headSize + j;
      cos[first] = cos[first + half] = Math.cos(angle);
      sin[first + half] = Math.sin(angle);
      sin[first] = -sin[first + half]!;
    }
  });
  return { cos, sin };
}
