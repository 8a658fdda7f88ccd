import type { Architecture, LayerKind } from './architecture.ts';

/** cos and sin, [T, D/2] row-major each. */
export interface RopeTables {
  readonly cos: Float32Array;
  readonly sin: Float32Array;
}

/**
 * Rotary position tables (RoFormer, arXiv 2104.09864).
 *
 * @param factors [D/2] divisors of the frequencies, or null
 * @returns the object of `full` for kinds without layers
 */
export function ropeTables(
  positions: Int32Array,
  { headSize, ropeBase, ropeScale, window, unrotatedPeriod }: Architecture,
  factors: Float32Array | null,
): Readonly<Record<LayerKind, RopeTables>> {
  const half = headSize / 2;
  const tables = (frequency: (j: number) => number) =>
    tablesOf(
      positions,
      Float64Array.from({ length: half }, (_, j) => frequency(j)),
    );
  const full = tables((j) => ropeBase ** (-j / half) / (factors?.[j] ?? 1) / ropeScale);
  return {
    full,
    windowed: window === null ? full : tables((j) => window.ropeBase ** (-j / half)),
    unrotated: unrotatedPeriod === null ? full : tables(() => 0),
  };
}

/** @param frequencies [D/2], radians per position */
function tablesOf(positions: Int32Array, frequencies: Float64Array): RopeTables {
  const half = frequencies.length;
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
