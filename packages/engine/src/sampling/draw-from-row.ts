import { argmax, BLOCK_SIZE, expNegative, type RowScan } from '@trainyard/decoder';
import type { DrawKey } from './random.ts';

/**
 * Draws a token by its exponential: a race of the blocks at the rates of their sums, then of the winner's
 * tokens.
 *
 * Batch shapes change logits slightly, which changes the winner only if two arrivals are that close; a point on
 * the running sum would change far more often. Needs both scans.
 *
 * @returns -1 if no token has weight
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
  // The sum has float32 terms: near e^-50 it can include a term that is 0 here.
  return first >= 0 ? first : argmax(row, scan);
}
