import { type Architecture, type LayerKind, numRotated, type Yarn, yarnMagnitude } from './architecture.ts';

/** cos and sin, [T, rotated dimensions / 2] row-major each. */
export interface RopeTables {
  readonly cos: Float32Array;
  readonly sin: Float32Array;
}

/**
 * Rotary position tables (RoFormer, arXiv 2104.09864).
 *
 * @param factors divisors of the frequencies, or null
 * @returns the object of `full` for kinds without layers
 */
export function ropeTables(
  positions: Int32Array,
  architecture: Architecture,
  factors: Float32Array | null,
): Readonly<Record<LayerKind, RopeTables>> {
  const { ropeBase, ropeScale, yarn, longRope, window, unrotatedPeriod } = architecture;
  const half = numRotated(architecture) / 2;
  const tables = (frequency: (j: number) => number, magnitude = 1) =>
    tablesOf(
      positions,
      Float64Array.from({ length: half }, (_, j) => frequency(j)),
      magnitude,
    );
  const share = yarn === null ? null : yarnShares(yarn, ropeBase, half);
  const full = tables(
    (j) => (ropeBase ** (-j / half) / (factors?.[j] ?? 1) / ropeScale) * (share?.(j) ?? 1),
    yarn === null ? (longRope?.magnitude ?? 1) : yarnMagnitude(yarn),
  );
  const ofWindows = window?.ropeBase ?? null;
  return {
    full,
    windowed: ofWindows === null ? full : tables((j) => ofWindows ** (-j / half)),
    unrotated: unrotatedPeriod === null ? full : tables(() => 0),
  };
}

/** Factor of each frequency (YaRN, arXiv 2309.00071): 1 for fast rotations, 1 / factor for slow ones. */
function yarnShares(yarn: Yarn, base: number, half: number): (j: number) => number {
  const { factor, originalContext, betaFast, betaSlow, isRounded } = yarn;
  const pairOf = (rotations: number) => (half * Math.log(originalContext / (rotations * 2 * Math.PI))) / Math.log(base);
  const [first, last] = [pairOf(betaFast), pairOf(betaSlow)];
  const low = Math.max(0, isRounded ? Math.floor(first) : first);
  const high = Math.min(2 * half - 1, isRounded ? Math.ceil(last) : last);
  return (j) => {
    const slowness = Math.min(1, Math.max(0, (j - low) / Math.max(0.001, high - low)));
    return slowness / factor + 1 - slowness;
  };
}

/** @param frequencies [D/2], radians per position */
function tablesOf(positions: Int32Array, frequencies: Float64Array, magnitude: number): RopeTables {
  const half = frequencies.length;
  const cos = new Float32Array(positions.length * half);
  const sin = new Float32Array(positions.length * half);
  positions.forEach((position, token) => {
    for (let j = 0; j < half; j++) {
      const angle = position * frequencies[j]!;
      cos[token * half + j] = magnitude * Math.cos(angle);
      sin[token * half + j] = magnitude * Math.sin(angle);
    }
  });
  return { cos, sin };
}
