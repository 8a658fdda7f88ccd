import { float32, floats } from '../graph/session.ts';
import type { Architecture } from './architecture.ts';
import type { RunGraph } from './block-sessions.ts';
import { vocabularyParts } from './row-plan.ts';
import type { TokenRange } from './token-range.ts';

/** What the head of one pass reads and writes, for the N trained tokens of a row. */
export interface HeadBuffers {
  readonly sources: Int32Array;
  readonly targets: Int32Array;
  readonly logprobs: Float32Array;
  readonly entropies: Float32Array;
  /** [N, H] ∂logprob/∂(hidden state of the source); null when no backward follows. */
  readonly direction: Float32Array | null;
}

/** Rows of the head in progress: sums over the parts of the vocabulary seen so far. */
interface HeadRows {
  /** [rows, H] */
  readonly h: Float32Array;
  /** [rows] 1 / √(mean(x²) + ε) */
  readonly inverseRms: Float64Array;
  readonly logPartition: Float64Array;
  readonly meanLogit: Float64Array;
  /** [rows, H] */
  readonly mean: Float32Array;
}

/**
 * Final norm, vocabulary and log-probability of one target per row, a part of the vocabulary at a time.
 *
 * A row's loss reaches its hidden state through its one log-probability, so that direction, scaled later by ∂loss/∂logprob, is the whole
 * backward pass: logits (V floats a row) never outlive the run that made them.
 */
export class HeadCompute {
  readonly #architecture: Architecture;
  readonly #norm: Float32Array;
  readonly #vocabulary: Float32Array;
  readonly #run: RunGraph;
  #rows: HeadRows | null = null;

  constructor(
    architecture: Architecture,
    weights: { readonly outputNorm: Float32Array; readonly vocabulary: Float32Array },
    run: RunGraph,
  ) {
    this.#architecture = architecture;
    this.#norm = weights.outputNorm;
    this.#vocabulary = weights.vocabulary;
    this.#run = run;
  }

  /**
   * One part of the vocabulary for one range of trained tokens; parts come in order, and the last writes the results.
   *
   * @param hidden [T, H] output of the last block
   */
  async forward(range: TokenRange, part: number, hidden: Float32Array, buffers: HeadBuffers): Promise<void> {
    const { hiddenSize, vocabSize } = this.#architecture;
    const numRows = range.end - range.start;
    const parts = vocabularyParts(vocabSize, numRows);
    const columns = parts[part];
    if (columns === undefined) return;
    if (part === 0) this.#rows = this.#begin(range, hidden, buffers.sources);
    const rows = this.#rows!;
    const vocabulary = this.#vocabulary.subarray(columns.start * hiddenSize, columns.end * hiddenSize);
    const feeds = {
      h: float32(rows.h, [numRows, hiddenSize]),
      vocabulary: float32(vocabulary, [columns.end - columns.start, hiddenSize]),
    };
    const outputs = await this.#run(buffers.direction === null ? 'head' : 'directionHead', feeds, {});
    const mean = outputs['mean'] === undefined ? null : floats(outputs['mean']);
    join(rows, floats(outputs['logPartition']!), floats(outputs['meanLogit']!), mean);
    if (part < parts.length - 1) return;
    this.#end(rows, range, hidden, buffers);
    this.#rows = null;
  }

  #begin(range: TokenRange, hidden: Float32Array, sources: Int32Array): HeadRows {
    const { hiddenSize, rmsEpsilon } = this.#architecture;
    const numRows = range.end - range.start;
    const h = new Float32Array(numRows * hiddenSize);
    const inverseRms = new Float64Array(numRows);
    for (let row = 0; row < numRows; row++) {
      const x = rowOf(hidden, sources[range.start + row]!, hiddenSize);
      const r = 1 / Math.sqrt(dot(x, x) / hiddenSize + rmsEpsilon);
      inverseRms[row] = r;
      for (let j = 0; j < hiddenSize; j++) h[row * hiddenSize + j] = x[j]! * r * this.#norm[j]!;
    }
    return {
      h,
      inverseRms,
      logPartition: new Float64Array(numRows).fill(-Infinity),
      meanLogit: new Float64Array(numRows),
      mean: new Float32Array(h.length),
    };
  }

  #end(rows: HeadRows, range: TokenRange, hidden: Float32Array, buffers: HeadBuffers): void {
    const { hiddenSize } = this.#architecture;
    const { sources, targets, logprobs, entropies, direction } = buffers;
    for (let row = 0; row < rows.inverseRms.length; row++) {
      const i = range.start + row;
      const target = rowOf(this.#vocabulary, targets[i]!, hiddenSize);
      logprobs[i] = dot(rowOf(rows.h, row, hiddenSize), target) - rows.logPartition[row]!;
      // Rounding can take the entropy of a near-certain distribution a hair below zero.
      entropies[i] = Math.max(0, rows.logPartition[row]! - rows.meanLogit[row]!);
      if (direction === null) continue;
      // ∂logprob/∂h = vocabulary[target] - Σ p · vocabulary; then back through h = x · r · norm, where ∂r/∂x = -r³ · x / H.
      const x = rowOf(hidden, sources[i]!, hiddenSize);
      const mean = rowOf(rows.mean, row, hiddenSize);
      const into = rowOf(direction, i, hiddenSize);
      for (let j = 0; j < hiddenSize; j++) into[j] = this.#norm[j]! * (target[j]! - mean[j]!);
      const r = rows.inverseRms[row]!;
      const share = (dot(into, x) * r ** 3) / hiddenSize;
      for (let j = 0; j < hiddenSize; j++) into[j] = into[j]! * r - x[j]! * share;
    }
  }
}

/** Adds a part of the vocabulary: both sides weigh by their share of the partition function. */
function join(rows: HeadRows, logPartition: Float32Array, meanLogit: Float32Array, mean: Float32Array | null): void {
  const width = rows.mean.length / logPartition.length;
  for (let row = 0; row < logPartition.length; row++) {
    const [old, added] = [rows.logPartition[row]!, logPartition[row]!];
    const top = Math.max(old, added);
    const sum = top + Math.log(Math.exp(old - top) + Math.exp(added - top));
    const [oldShare, addedShare] = [Math.exp(old - sum), Math.exp(added - sum)];
    rows.logPartition[row] = sum;
    rows.meanLogit[row] = oldShare * rows.meanLogit[row]! + addedShare * meanLogit[row]!;
    if (mean === null) continue;
    for (let j = row * width; j < (row + 1) * width; j++)
      rows.mean[j] = oldShare * rows.mean[j]! + addedShare * mean[j]!;
  }
}

const rowOf = (matrix: Float32Array, row: number, columns: number) =>
  matrix.subarray(row * columns, (row + 1) * columns);

function dot(a: Float32Array, b: Float32Array): number {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i]! * b[i]!;
  return sum;
}
