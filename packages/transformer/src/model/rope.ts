import type { Architecture } from './architecture.ts';

/**
 * Rotary position tables (RoFormer, arXiv 2104.09864).
 *
 * @param factors [D/2] divisors of the frequencies, or null
 * @returns cos and sin, [T, D/2] row-major
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
  const cos = new Float32Array(positions.length * half);
  const sin = new Float32Array(positions.length * half);
  positions.forEach((position, token) => {
    for (let j = 0; j < half; j++) {
      const angle = position * frequencies[j]!;
      cos[token * half + j] = Math.cos(angle);
      sin[token * half + j] = Math.sin(angle);
    }
  });
  return { cos, sin };
}
