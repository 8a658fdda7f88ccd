import type { DrawKey } from './random.ts';
import { BLOCK_SIZE, createRowKernel } from './row-kernel.ts';
import type { RowKernel } from './row-kernel.ts';

/**
 * Passes over one row of logits, `[V]` float32, without allocation.
 *
 * A row is cut into blocks. One pass finds each block's maximum, a second the sum of `exp((x - max) / T)` of each block; later questions
 * (the draw, the k-th largest, the most likely) rescan only the blocks that matter.
 */
export { BLOCK_SIZE };

/** The results of the passes over one row. Owned by the sampler and reused from row to row. */
export class RowScan {
  readonly kernel: RowKernel;
  readonly numBlocks: number;
  readonly blockMaxima: Float32Array; // [numBlocks]
  readonly blockSums: Float64Array; // [numBlocks]
  /** Largest logit; -Infinity when every token is masked, NaN when the row holds one. */
  maximum = -Infinity;
  /** Sum of `exp((x - maximum) / T)` after {@link scanSums}; in [1, V] for rows with a finite maximum. */
  total = 0;

  constructor(vocabSize: number) {
    this.kernel = createRowKernel(vocabSize);
    this.blockMaxima = this.kernel.blockMaxima;
    this.blockSums = this.kernel.blockSums;
    this.numBlocks = this.blockMaxima.length;
  }
}

/** Takes a copy of the row for {@link scanSums}, too. */
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
}

/** Sums over the row of the last {@link scanMaxima}. Terms in float32 (relative error below 3e-7), sums in float64. */
export function scanSums(scan: RowScan, inverseTemperature: number): void {
  const { blockSums, numBlocks } = scan;
  scan.kernel.sumExponentials(scan.maximum, inverseTemperature);
  let total = 0;
  for (let block = 0; block < numBlocks; block++) total += blockSums[block]!;
  scan.total = total;
}

/**
 * A token with a share in proportion to its exponential: a race of the blocks at the rates of their sums, then of the winner's tokens.
 *
 * A small change of the logits (another batch shape takes another kernel) changes the winner only if two arrivals are that close. A point
 * on the running sum of all tokens would cross a border far more often, since every token before it moves it.
 * Needs both scans. @returns -1 when no token has weight
 * @see the exponential race, or Gumbel-max trick: Maddison et al., arXiv 1411.0030
 */
export function drawFromRow(row: Float32Array, scan: RowScan, inverseTemperature: number, key: DrawKey): number {
  const { blockSums, numBlocks, maximum } = scan;
  let firstBlock = -1;
  let firstArrival = Infinity;
  for (let block = 0; block < numBlocks; block++) {
    if (!(blockSums[block]! > 0)) continue;
    const arrival = key.arrival(block, blockSums[block]!, firstArrival);
    if (arrival >= firstArrival) continue;
    firstBlock = block;
    firstArrival = arrival;
  }
  if (firstBlock < 0) return -1;
  const end = Math.min(row.length, (firstBlock + 1) * BLOCK_SIZE);
  let first = -1;
  firstArrival = Infinity;
  for (let id = firstBlock * BLOCK_SIZE; id < end; id++) {
    const weight = expNegative((row[id]! - maximum) * inverseTemperature);
    if (weight === 0) continue;
    const arrival = key.arrival(numBlocks + id, weight, firstArrival);
    if (arrival >= firstArrival) continue;
    first = id;
    firstArrival = arrival;
  }
  // The sum is of float32 terms: at e^-50 it can have one that is 0 here.
  return first >= 0 ? first : argmax(row, scan);
}

/** The most likely token, the lowest id among equals; -1 when every token is masked or one is NaN. Needs {@link scanMaxima}. */
export function argmax(row: Float32Array, scan: RowScan): number {
  if (!(scan.maximum > -Infinity)) return -1;
  const block = scan.blockMaxima.indexOf(scan.maximum);
  return row.indexOf(scan.maximum, block * BLOCK_SIZE);
}

/** How many logits are at least `value`; blocks below it are not read. Needs {@link scanMaxima}. */
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
 * e^x for x <= 0: a table of e^(-n/32) times a polynomial on |r| <= 1/64, relative error below 1e-11; exactly 0 at or below -50.
 * A third of the cost of Math.exp where V8 inlines it, which matters to top_p: it weighs every token.
 */
export function expNegative(x: number): number {
  if (!(x > SMALLEST_EXPONENT)) return x === x ? 0 : NaN;
  const n = (0.5 - x * STEPS_PER_UNIT) | 0;
  const r = x + n * STEP;
  return EXP_TABLE[n]! * (1 + r * (1 + r * (0.5 + r * (1 / 6 + r * (1 / 24)))));
}
