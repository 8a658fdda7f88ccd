import { BLOCK_SIZE, createRowKernel } from './row-kernel.ts';
import type { RowKernel } from './row-kernel.ts';

/**
 * Passes over one row of logits, `[V]` float32, without allocation. One finds each block's maximum, a second
 * each block's sum of `exp((x - max) / T)`; later questions rescan only the blocks that matter.
 */
export { BLOCK_SIZE };

/** The sampler reuses it for each row. */
export class RowScan {
  readonly kernel: RowKernel;
  readonly numBlocks: number;
  readonly blockMaxima: Float32Array; // [numBlocks]
  readonly blockSums: Float64Array; // [numBlocks]
  /** Largest logit; -Infinity if all tokens are masked, NaN if the row has one. */
  maximum = -Infinity;
  /** Sum of `exp((x - maximum) / T)` after {@link scanSums}; in [1, V] for rows with a finite maximum. */
  total = 0;
  /** 1 / T of the last {@link scanSums} of this row; NaN before it. */
  inverseTemperature = NaN;

  constructor(vocabSize: number) {
    this.kernel = createRowKernel(vocabSize);
    this.blockMaxima = this.kernel.blockMaxima;
    this.blockSums = this.kernel.blockSums;
    this.numBlocks = this.blockMaxima.length;
  }
}

export function scanMaxima(row: Float32Array, scan: RowScan): void {
  const { blockMaxima, numBlocks, kernel } = scan;
  kernel.row.set(row);
  kernel.findMaxima();
  let maximum = -Infinity;
  for (let block = 0; block < numBlocks; block++) {
    const value = blockMaxima[block]!;
    if (!(value <= maximum)) maximum = value;
    if (value !== value) break;
  }
  scan.maximum = maximum;
  scan.inverseTemperature = NaN;
}

/**
 * Sums over the row of the last {@link scanMaxima}. Terms in float32 (relative error below 3e-7), sums in
 * float64.
 */
export function scanSums(scan: RowScan, inverseTemperature: number): void {
  const { blockSums, numBlocks } = scan;
  scan.kernel.sumExponentials(scan.maximum, inverseTemperature);
  let total = 0;
  for (let block = 0; block < numBlocks; block++) total += blockSums[block]!;
  scan.total = total;
  scan.inverseTemperature = inverseTemperature;
}

/**
 * The most likely token, the lowest id among equals; -1 if all tokens are masked or one is NaN. Needs
 * {@link scanMaxima}.
 */
export function argmax(row: Float32Array, scan: RowScan): number {
  if (!(scan.maximum > -Infinity)) return -1;
  const block = scan.blockMaxima.indexOf(scan.maximum);
  return row.indexOf(scan.maximum, block * BLOCK_SIZE);
}

/** Counts logits of at least `value`, skipping blocks below it. Needs {@link scanMaxima}. */
export function countAtLeast(row: Float32Array, scan: RowScan, value: number): number {
  let count = 0;
  for (let block = 0; block < scan.numBlocks; block++) {
    if (scan.blockMaxima[block]! < value) continue;
    const end = Math.min(row.length, (block + 1) * BLOCK_SIZE);
    for (let i = block * BLOCK_SIZE; i < end; i++) if (row[i]! >= value) count++;
  }
  return count;
}

/** log Σ exp(x) of the row. Needs both scans at temperature 1. */
export function logSumExp(scan: RowScan): number {
  return scan.maximum + Math.log(scan.total);
}

const STEPS_PER_UNIT = 32;
const STEP = 1 / STEPS_PER_UNIT;
// e^-50 = 2e-22: a whole vocabulary of such terms is below float64's resolution of a sum >= 1.
const SMALLEST_EXPONENT = -50;
const EXP_TABLE = Float64Array.from({ length: -SMALLEST_EXPONENT * STEPS_PER_UNIT + 2 }, (_, i) => Math.exp(-i * STEP));

/**
 * e^x for x <= 0: a table of e^(-n/32) times a polynomial on |r| <= 1/64, relative error below 1e-11; exactly 0
 * at or below -50. A third of the cost of Math.exp if V8 inlines it, which matters for top_p: it weighs every
 * token.
 */
export function expNegative(x: number): number {
  if (!(x > SMALLEST_EXPONENT)) return x === x ? 0 : NaN;
  const n = (0.5 - x * STEPS_PER_UNIT) | 0;
  const r = x + n * STEP;
  return EXP_TABLE[n]! * (1 + r * (1 + r * (0.5 + r * (1 / 6 + r * (1 / 24)))));
}
