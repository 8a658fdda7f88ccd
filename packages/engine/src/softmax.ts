/**
 * Passes over one row of logits, `[V]` float32, without allocation.
 *
 * A row is cut into blocks. One pass finds each block's maximum, a second the sum of `exp((x - max) / T)` of each block; later questions
 * (the draw, the k-th largest, the most likely) rescan only the blocks that matter.
 */

// 128: 384 blocks at V = 49,152; a draw rescans one of them, and the k-th block maximum is a tight bound for the k-th logit.
export const BLOCK_SIZE = 128;

/** What the passes know of one row. Owned by the sampler and reused from row to row. */
export class RowScan {
  readonly numBlocks: number;
  readonly blockMaxima: Float64Array; // [numBlocks]
  readonly blockSums: Float64Array; // [numBlocks]
  /** Largest logit; -Infinity when every token is masked, NaN is never found by it. */
  maximum = -Infinity;
  /** Sum of `exp((x - maximum) / T)` after {@link scanSums}; in [1, V] for finite rows. */
  total = 0;

  constructor(vocabSize: number) {
    this.numBlocks = Math.ceil(vocabSize / BLOCK_SIZE);
    this.blockMaxima = new Float64Array(this.numBlocks);
    this.blockSums = new Float64Array(this.numBlocks);
  }
}

export function scanMaxima(row: Float32Array, scan: RowScan): void {
  const { blockMaxima, numBlocks } = scan;
  let maximum = -Infinity;
  for (let block = 0; block < numBlocks; block++) {
    const end = Math.min(row.length, (block + 1) * BLOCK_SIZE);
    // Four independent chains: one alone waits for its own comparison each time.
    let a = -Infinity;
    let b = -Infinity;
    let c = -Infinity;
    let d = -Infinity;
    let i = block * BLOCK_SIZE;
    for (; i + 3 < end; i += 4) {
      const w = row[i]!;
      const x = row[i + 1]!;
      const y = row[i + 2]!;
      const z = row[i + 3]!;
      if (w > a) a = w;
      if (x > b) b = x;
      if (y > c) c = y;
      if (z > d) d = z;
    }
    for (; i < end; i++) if (row[i]! > a) a = row[i]!;
    if (b > a) a = b;
    if (d > c) c = d;
    if (c > a) a = c;
    blockMaxima[block] = a;
    if (a > maximum) maximum = a;
  }
  scan.maximum = maximum;
}

/** Needs {@link scanMaxima} before. `total` becomes NaN when the row holds a NaN. */
export function scanSums(row: Float32Array, scan: RowScan, inverseTemperature: number): void {
  const { blockSums, numBlocks, maximum } = scan;
  let total = 0;
  for (let block = 0; block < numBlocks; block++) {
    const sum = sumRange(
      row,
      block * BLOCK_SIZE,
      Math.min(row.length, (block + 1) * BLOCK_SIZE),
      maximum,
      inverseTemperature,
    );
    blockSums[block] = sum;
    total += sum;
  }
  scan.total = total;
}

function sumRange(row: Float32Array, start: number, end: number, maximum: number, inverseTemperature: number): number {
  let sum = 0;
  for (let i = start; i < end; i++) {
    const x = (row[i]! - maximum) * inverseTemperature;
    // The body of expNegative, written out: a call per element costs a fifth more.
    if (x > SMALLEST_EXPONENT) {
      const n = (0.5 - x * STEPS_PER_UNIT) | 0;
      const r = x + n * STEP;
      sum += EXP_TABLE[n]! * (1 + r * (1 + r * (0.5 + r * (1 / 6 + r * (1 / 24)))));
    } else if (x !== x) return NaN;
  }
  return sum;
}

/** Index of the first token whose running share of `total` exceeds `uniform`. Needs both scans. */
export function drawFromRow(row: Float32Array, scan: RowScan, inverseTemperature: number, uniform: number): number {
  const { blockSums, numBlocks, maximum } = scan;
  const target = uniform * scan.total;
  let before = 0;
  let lastPossible = -1;
  for (let block = 0; block < numBlocks; block++) {
    const sum = blockSums[block]!;
    if (before + sum <= target && block < numBlocks - 1) {
      before += sum;
      continue;
    }
    const end = Math.min(row.length, (block + 1) * BLOCK_SIZE);
    let running = before;
    for (let i = block * BLOCK_SIZE; i < end; i++) {
      const weight = expNegative((row[i]! - maximum) * inverseTemperature);
      if (weight === 0) continue;
      running += weight;
      lastPossible = i;
      if (running > target) return i;
    }
    // Rounding: the block's sum reached past the target and its running sum did not. The next block begins where this one ends.
    before = running;
  }
  return lastPossible >= 0 ? lastPossible : argmax(row, scan);
}

/** The most likely token, the lowest id among equals; -1 when every token is masked. Needs {@link scanMaxima}. */
export function argmax(row: Float32Array, scan: RowScan): number {
  if (scan.maximum === -Infinity) return -1;
  const block = scan.blockMaxima.indexOf(scan.maximum);
  return row.indexOf(scan.maximum, block * BLOCK_SIZE);
}

/** log Σ exp(x) of the row, float64. Needs both scans at temperature 1. */
export function logSumExp(scan: RowScan): number {
  return scan.maximum + Math.log(scan.total);
}

const STEPS_PER_UNIT = 32;
const STEP = 1 / STEPS_PER_UNIT;
// e^-50 = 2e-22: a whole vocabulary of such terms is below float64's resolution of a sum >= 1.
const SMALLEST_EXPONENT = -50;
const EXP_TABLE = Float64Array.from({ length: -SMALLEST_EXPONENT * STEPS_PER_UNIT + 2 }, (_, i) => Math.exp(-i * STEP));

/**
 * e^x for x <= 0: a table of e^(-n/32) times a polynomial on |r| <= 1/64, relative error below 1e-11; exactly 0 at or below -50.
 * About a third of the cost of Math.exp, which at V = 49,152 was half of the sampler's time.
 */
export function expNegative(x: number): number {
  if (!(x > SMALLEST_EXPONENT)) return x === x ? 0 : NaN;
  const n = (0.5 - x * STEPS_PER_UNIT) | 0;
  const r = x + n * STEP;
  return EXP_TABLE[n]! * (1 + r * (1 + r * (0.5 + r * (1 / 6 + r * (1 / 24)))));
}
