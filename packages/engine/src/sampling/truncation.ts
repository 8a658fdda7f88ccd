import type { Truncation } from '@trainyard/protocol/fields';
import type { DrawKey } from './random.ts';
import { BLOCK_SIZE, expNegative, type RowScan, scanSums } from '@trainyard/decoder';

export class CandidateBuffer {
  readonly ids: Int32Array; // [V]
  readonly values: Float32Array; // [V]
  readonly bucketMass = new Float64Array(NUM_BUCKETS);
  count = 0;

  constructor(vocabSize: number) {
    this.ids = new Int32Array(vocabSize);
    this.values = new Float32Array(vocabSize);
  }
}

/** Scan of the row after `scanMaxima`, and room for candidates. */
export interface RowBuffers {
  readonly scan: RowScan;
  readonly candidates: CandidateBuffer;
}

export function isTruncated({ topP, topK, minP, topNSigma }: Truncation): boolean {
  return topP < 1 || topK > 0 || minP > 0 || topNSigma > 0;
}

/**
 * Smallest logit that survives top_n_sigma, min_p, then top_k, then top_p on the renormalised rest; -Infinity if
 * all are off. Each setting is such a threshold, so only a few candidates are sorted.
 *
 * @param settings its temperature is > 0; probabilities are of the row divided by it
 */
export function truncationThreshold(
  row: Float32Array,
  settings: Readonly<Truncation & { temperature: number }>,
  buffers: RowBuffers,
): number {
  const { temperature, topP, topK, minP, topNSigma } = settings;
  const { scan } = buffers;
  // p >= minP * max p  <=>  (x - max) / T >= ln minP
  let threshold = minP > 0 ? scan.maximum + temperature * Math.log(minP) : -Infinity;
  if (topNSigma > 0) threshold = Math.max(threshold, scan.maximum - topNSigma * standardDeviation(row, scan));
  if (topK > 0 && topK < row.length) threshold = Math.max(threshold, kthLargest(row, topK, buffers));
  if (topP < 1)
    threshold = Math.max(
      threshold,
      nucleusThreshold(row, { threshold, topP, inverseTemperature: 1 / temperature }, buffers),
    );
  return threshold;
}

/**
 * Standard deviation of the unmasked logits (σ with 1/N). It scales with 1 / temperature, so `max - n σ` cuts at
 * the same tokens before and after the division.
 *
 * @see Top-nσ (arXiv 2411.07641); llama.cpp's `top-n-sigma`, which leaves masked tokens out, too
 */
function standardDeviation(row: Float32Array, scan: RowScan): number {
  let count = 0;
  let sum = 0;
  let squares = 0;
  for (let id = 0; id < row.length; id++) {
    const gap = row[id]! - scan.maximum; // small numbers, whose squares are exact enough in float64
    if (gap === -Infinity) continue;
    count++;
    sum += gap;
    squares += gap * gap;
  }
  const mean = sum / count;
  return Math.sqrt(Math.max(0, squares / count - mean * mean));
}

/**
 * Draws among tokens at or above `threshold`: the first of a race, as in `drawFromRow`.
 *
 * @returns -1 if none has weight
 */
export function drawAbove(
  row: Float32Array,
  threshold: number,
  { inverseTemperature, key }: { readonly inverseTemperature: number; readonly key: DrawKey },
  buffers: RowBuffers,
): number {
  const { scan, candidates } = buffers;
  gatherAbove(row, threshold, buffers);
  const { ids, count } = candidates;
  let first = -1;
  let firstArrival = Infinity;
  for (let i = 0; i < count; i++) {
    const weight = expNegative((row[ids[i]!]! - scan.maximum) * inverseTemperature);
    if (!(weight > 0)) continue;
    const arrival = key.arrival(ids[i]!, weight, firstArrival);
    if (arrival >= firstArrival) continue;
    first = ids[i]!;
    firstArrival = arrival;
  }
  return first;
}

export function gatherAbove(row: Float32Array, threshold: number, { scan, candidates }: RowBuffers): void {
  const { ids } = candidates;
  let count = 0;
  for (let block = 0; block < scan.numBlocks; block++) {
    if (scan.blockMaxima[block]! < threshold) continue;
    const end = Math.min(row.length, (block + 1) * BLOCK_SIZE);
    for (let i = block * BLOCK_SIZE; i < end; i++) if (row[i]! >= threshold) ids[count++] = i;
  }
  candidates.count = count;
}

/** The k-th largest logit of the row, 1 <= k <= V. Needs `scanMaxima`. */
function kthLargest(row: Float32Array, k: number, buffers: RowBuffers): number {
  gatherAbove(row, kthLargestBound(buffers.scan, k), buffers);
  const { ids, values, count } = buffers.candidates;
  for (let i = 0; i < count; i++) values[i] = row[ids[i]!]!;
  return quickSelectLargest(values, count, k);
}

/**
 * A value that at least k logits reach, because k blocks have such a maximum. -Infinity if there are fewer
 * blocks.
 */
export function kthLargestBound(scan: RowScan, k: number): number {
  if (k === 1) return scan.maximum;
  if (k > scan.numBlocks) return -Infinity;
  return scan.blockMaxima.toSorted()[scan.numBlocks - k]!;
}

/** Hoare's selection on `values[0..count)`, which it reorders. */
function quickSelectLargest(values: Float32Array, count: number, k: number): number {
  let low = 0;
  let high = count - 1;
  const wanted = k - 1; // index in descending order
  while (low < high) {
    const pivot = values[(low + high) >>> 1]!;
    let i = low;
    let j = high;
    while (i <= j) {
      while (values[i]! > pivot) i++;
      while (values[j]! < pivot) j--;
      if (i > j) break;
      const swapped = values[i]!;
      values[i] = values[j]!;
      values[j] = swapped;
      i++;
      j--;
    }
    if (wanted <= j) high = j;
    else if (wanted >= i) low = i;
    else break;
  }
  return values[wanted]!;
}

// Buckets of 1/32 nat below the maximum, down to -50 where weights are 0; one more takes the rest.
const BUCKETS_PER_NAT = 32;
const NUM_BUCKETS = 50 * BUCKETS_PER_NAT + 2;

interface Nucleus {
  /** Smallest logit that the other settings leave. */
  readonly threshold: number;
  readonly topP: number;
  readonly inverseTemperature: number;
}

/**
 * Smallest logit v >= `threshold` such that the mass strictly above v is less than `topP` of the mass at or
 * above `threshold`. Only the bucket that reaches the share is sorted.
 */
function nucleusThreshold(
  row: Float32Array,
  { threshold, topP, inverseTemperature }: Nucleus,
  buffers: RowBuffers,
): number {
  const { scan } = buffers;
  const { bucketMass } = buffers.candidates;
  let total: number;
  if (threshold > -Infinity) total = collectMass(row, threshold, inverseTemperature, buffers);
  else {
    // The whole row's mass is cheap, weighing single tokens is not: weigh only the likely ones, as deep as needed.
    scanSums(scan, inverseTemperature);
    total = scan.total;
    for (let depth = FIRST_DEPTH; ; depth *= 2) {
      const floor = depth < 50 ? scan.maximum - depth / inverseTemperature : -Infinity;
      if (!(collectMass(row, floor, inverseTemperature, buffers) < topP * total) || floor === -Infinity) break;
    }
  }
  const target = topP * total;
  let bucket = 0;
  let above = 0; // mass of the buckets before
  while (bucket < NUM_BUCKETS && above + bucketMass[bucket]! < target) above += bucketMass[bucket++]!;
  if (bucket === NUM_BUCKETS) return threshold; // by rounding, only all buckets together reach the share

  const sorted = valuesOfBucket(row, bucket, { threshold, inverseTemperature }, buffers).sort(); // ascending
  let kept = scan.maximum;
  for (let i = sorted.length - 1; i >= 0 && above < target;) {
    kept = sorted[i]!;
    const weight = expNegative((kept - scan.maximum) * inverseTemperature);
    for (; i >= 0 && sorted[i] === kept; i--) above += weight; // equal logits are kept or removed together
  }
  return kept;
}

// 8 nats below the maximum, a token has 1/3000 of its probability: a confident row's nucleus is above.
const FIRST_DEPTH = 8;

/** @returns the sum of all weights */
function collectMass(
  row: Float32Array,
  floor: number,
  inverseTemperature: number,
  { scan, candidates: { bucketMass } }: RowBuffers,
): number {
  bucketMass.fill(0);
  let total = 0;
  for (let block = 0; block < scan.numBlocks; block++) {
    if (scan.blockMaxima[block]! < floor) continue;
    const end = Math.min(row.length, (block + 1) * BLOCK_SIZE);
    for (let i = block * BLOCK_SIZE; i < end; i++) {
      if (row[i]! < floor) continue;
      const x = (row[i]! - scan.maximum) * inverseTemperature;
      const weight = expNegative(x);
      if (weight === 0) continue;
      bucketMass[bucketOf(x)]! += weight;
      total += weight;
    }
  }
  return total;
}

function valuesOfBucket(
  row: Float32Array,
  bucket: number,
  { threshold, inverseTemperature }: Omit<Nucleus, 'topP'>,
  buffers: RowBuffers,
): Float32Array {
  const { scan, candidates } = buffers;
  // One bucket further down than needed: rounding must not lose a token at the border.
  const floor = Math.max(threshold, scan.maximum - (bucket + 2) / BUCKETS_PER_NAT / inverseTemperature);
  gatherAbove(row, floor, buffers);
  const { ids, values } = candidates;
  let count = 0;
  for (let i = 0; i < candidates.count; i++) {
    const value = row[ids[i]!]!;
    if (bucketOf((value - scan.maximum) * inverseTemperature) === bucket) values[count++] = value;
  }
  return values.subarray(0, count);
}

function bucketOf(x: number): number {
  return x > -50 ? (0.5 - x * BUCKETS_PER_NAT) | 0 : NUM_BUCKETS - 1;
}
