import { type Architecture, float32, type MatrixRows, type Scratch } from '@trainyard/transformer';
import { roundToBf16 } from './bf16-rounding.ts';
import type { VocabularyProducts } from './bf16-products.ts';
import type { GraphName, LaneRuntime, RunGraph } from './block-sessions.ts';
import { ReplayReader, type RowReplay } from '../model/row-replay.ts';
import type { TokenRange } from '../model/token-range.ts';

/** Buffers of the head in one pass, for a row's N trained tokens. */
export interface HeadBuffers {
  readonly sources: Int32Array;
  readonly targets: Int32Array;
  readonly logprobs: Float32Array;
  readonly entropies: Float32Array;
  /** [N, H] ∂logprob/∂(hidden state of the source); null if no backward follows. */
  readonly direction: Float32Array | null;
  /** [N, H] ∂entropy/∂(hidden state of the source); null if not requested. */
  readonly entropyDirection: Float32Array | null;
  /** Null: all drawn plainly from the model. */
  readonly replay: RowReplay | null;
  /** Each lane's part of the vocabulary. */
  readonly partial: readonly HeadPartial[];
}

/** Sums over some parts of the vocabulary. */
export interface HeadPartial {
  /** [N] log Σ exp(logit) */
  readonly logPartition: Float32Array | Float64Array;
  /** [N] Σ p · logit, where p sums to 1 over those parts */
  readonly meanLogit: Float32Array | Float64Array;
  /** [N, H] Σ p · vocabulary; empty if no direction is wanted */
  readonly mean: Float32Array;
  /** [N, H] Σ p · logit · vocabulary; empty if no direction of the entropy is wanted */
  readonly product: Float32Array;
}

/**
 * Final norm, vocabulary and log-probability of one target per row, one part of the vocabulary at a time.
 *
 * A row's loss reaches its hidden state only through its log-probability. So that direction, later scaled by
 * ∂loss/∂logprob, is the whole backward pass, and logits (V floats per row) never outlive their run. Lanes share
 * the vocabulary, not the rows, because reading it dominates if rows are few.
 */
export class HeadCompute {
  readonly #architecture: Architecture;
  readonly #norm: Float32Array;
  readonly #vocabulary: MatrixRows;
  readonly #products: VocabularyProducts | null;
  readonly #run: RunGraph;
  readonly #scratch: Scratch;
  /** [rows, H], the last computed range. */
  #rows: { readonly targets: TokenRange; readonly h: Float32Array } | null = null;
  #replay: { readonly of: RowReplay; readonly reader: ReplayReader } | null = null;

  /** @param products with the vocabulary in bf16; null: single precision */
  constructor(
    architecture: Architecture,
    weights: { readonly outputNorm: Float32Array; readonly vocabulary: MatrixRows },
    products: VocabularyProducts | null,
    { run, scratch }: LaneRuntime,
  ) {
    this.#architecture = architecture;
    this.#norm = weights.outputNorm;
    this.#vocabulary = weights.vocabulary;
    this.#products = products;
    this.#run = run;
    this.#scratch = scratch;
  }

  /** Starts another pass. */
  begin({ logPartition, meanLogit, mean, product }: HeadPartial): void {
    this.#rows = null;
    this.#replay?.reader.forgetLogits();
    logPartition.fill(-Infinity);
    meanLogit.fill(0);
    mean.fill(0);
    product.fill(0);
  }

  /** @param part of the vocabulary @param hidden [T, H] output of the last block */
  addPart(
    { targets, columns }: { readonly targets: TokenRange; readonly columns: TokenRange },
    hidden: Float32Array,
    buffers: HeadBuffers,
    into: HeadPartial,
  ): void {
    const { hiddenSize } = this.#architecture;
    if (this.#rows?.targets !== targets) this.#rows = { targets, h: this.#normalised(targets, hidden, buffers) };
    const vocabulary = this.#vocabulary.rows(columns.start, columns.end, (length) =>
      this.#scratch.take('head.vocabulary', length),
    );
    const numRows = targets.end - targets.start;
    const part = {
      logPartition: this.#scratch.take('head.logPartition', numRows),
      meanLogit: this.#scratch.take('head.meanLogit', numRows),
      mean: this.#scratch.take('head.mean', buffers.direction === null ? 0 : numRows * hiddenSize),
      product: this.#scratch.take('head.product', buffers.entropyDirection === null ? 0 : numRows * hiddenSize),
    };
    const { h } = this.#rows;
    const outside = this.#products?.of(columns) ?? null;
    const feeds = {
      h: float32(h, [numRows, hiddenSize]),
      vocabulary: float32(vocabulary, [columns.end - columns.start, hiddenSize]),
    };
    const replay = this.#replayOf(buffers);
    const isReplayed = replay?.touches(targets) === true;
    if (isReplayed) Object.assign(feeds, this.#adjustments(replay, targets, columns, h));
    const dims = [numRows, hiddenSize];
    const results = {
      logPartition: float32(part.logPartition, [numRows, 1]),
      meanLogit: float32(part.meanLogit, [numRows, 1]),
      mean: float32(part.mean, dims),
      product: float32(part.product, dims),
    };
    this.#run(headGraphOf(buffers, isReplayed), feeds, results, outside);
    join(into, targets, part);
  }

  /** Joins the results of all lanes, in order, for a range of trained tokens. */
  finish(range: TokenRange, hidden: Float32Array, buffers: HeadBuffers): void {
    const { hiddenSize } = this.#architecture;
    const { sources, targets, logprobs, entropies, direction, entropyDirection, partial } = buffers;
    const rowsOfRange = (matrix: Float32Array) => matrix.subarray(range.start * hiddenSize, range.end * hiddenSize);
    const [sum, ...others] = partial.map(({ logPartition, meanLogit, mean, product }) => ({
      logPartition: logPartition.subarray(range.start, range.end),
      meanLogit: meanLogit.subarray(range.start, range.end),
      mean: rowsOfRange(mean),
      product: rowsOfRange(product),
    }));
    for (const other of others) join(sum!, { start: 0, end: range.end - range.start }, other);
    const h = this.#normalised(range, hidden, buffers);
    const replay = this.#replayOf(buffers);
    for (let i = range.start; i < range.end; i++) {
      const row = i - range.start;
      const target = this.#vocabularyRow(targets[i]!);
      const meanLogit = sum!.meanLogit[row]!;
      const logit = dot(rowOf(h, row, hiddenSize), target);
      const centre = replay?.centreOf(i, (id) => dot(rowOf(h, row, hiddenSize), this.#vocabularyRow(id))) ?? 0;
      const { scale, offset } = replay?.of(i, targets[i]!, logit, centre) ?? { scale: 1, offset: 0 };
      // Rounding can lift the probability of a near-certain token slightly above 1.
      logprobs[i] = Math.min(0, logit * scale + offset - sum!.logPartition[row]!);
      // Rounding can push the entropy of a near-certain distribution slightly below zero.
      entropies[i] = Math.max(0, sum!.logPartition[row]! - meanLogit);
      if (direction === null) continue;
      const x = rowOf(hidden, sources[i]!, hiddenSize);
      const mean = rowOf(sum!.mean, row, hiddenSize);
      // ∂logprob/∂h = vocabulary[target] - Σ p · vocabulary, each times its logit's scale
      this.#throughNorm(x, rowOf(direction, i, hiddenSize), (j) => scale * target[j]! - mean[j]!);
      if (entropyDirection === null) continue;
      const product = rowOf(sum!.product, row, hiddenSize);
      // H = log Z - Σ p · logit; ∂H/∂h = Σ p · logit · Σ p · vocabulary - Σ p · logit · vocabulary
      this.#throughNorm(x, rowOf(entropyDirection, i, hiddenSize), (j) => meanLogit * mean[j]! - product[j]!);
    }
  }

  #replayOf({ replay }: HeadBuffers): ReplayReader | null {
    if (replay === null) return null;
    if (this.#replay?.of !== replay) this.#replay = { of: replay, reader: new ReplayReader(replay) };
    return this.#replay.reader;
  }

  /** [rows, C] each, for a graph with `replay`. */
  #adjustments(replay: ReplayReader, targets: TokenRange, columns: TokenRange, h: Float32Array) {
    const { hiddenSize } = this.#architecture;
    const dims = [targets.end - targets.start, columns.end - columns.start] as const;
    const scale = this.#scratch.take('head.scale', dims[0] * dims[1]);
    const offset = this.#scratch.take('head.offset', dims[0] * dims[1]);
    const logitOf = (row: number, id: number) => dot(rowOf(h, row, hiddenSize), this.#vocabularyRow(id));
    replay.fill(targets, columns, logitOf, { scale, offset });
    return { scale: float32(scale, dims), offset: float32(offset, dims) };
  }

  /** Gradient by x [H], given the gradient `of` by h = x · r · norm: ∂r/∂x = -r³ · x / H. */
  #throughNorm(x: Float32Array, into: Float32Array, of: (j: number) => number): void {
    const { hiddenSize } = this.#architecture;
    for (let j = 0; j < hiddenSize; j++) into[j] = this.#norm[j]! * of(j);
    const r = this.#inverseRms(x);
    const share = (dot(into, x) * r ** 3) / hiddenSize;
    for (let j = 0; j < hiddenSize; j++) into[j] = into[j]! * r - x[j]! * share;
  }

  /** [rows, H] after the final norm. */
  #normalised(targets: TokenRange, hidden: Float32Array, { sources }: HeadBuffers): Float32Array {
    const { hiddenSize } = this.#architecture;
    const h = new Float32Array((targets.end - targets.start) * hiddenSize);
    for (let i = targets.start; i < targets.end; i++) {
      const x = rowOf(hidden, sources[i]!, hiddenSize);
      const r = this.#inverseRms(x);
      const into = rowOf(h, i - targets.start, hiddenSize);
      for (let j = 0; j < hiddenSize; j++) into[j] = x[j]! * r * this.#norm[j]!;
    }
    // Logits of single tokens must use the same rounded values as products.
    if (this.#products !== null) roundToBf16(h, h);
    return h;
  }

  /** Rounded as in products. */
  #vocabularyRow(id: number): Float32Array {
    const row = this.#vocabulary.row(id);
    return this.#products === null ? row : roundToBf16(row, new Float32Array(row.length));
  }

  /** 1 / √(mean(x²) + ε) */
  #inverseRms(x: Float32Array): number {
    const { hiddenSize, rmsEpsilon } = this.#architecture;
    return 1 / Math.sqrt(dot(x, x) / hiddenSize + rmsEpsilon);
  }
}

/** Weights the results of another part of the vocabulary by the shares of the partition function. */
function join(sum: HeadPartial, { start, end }: TokenRange, part: HeadPartial): void {
  const numRows = end - start;
  for (let row = start; row < end; row++) {
    const from = row - start;
    const [old, added] = [sum.logPartition[row]!, part.logPartition[from]!];
    const top = Math.max(old, added);
    const total = top + Math.log(Math.exp(old - top) + Math.exp(added - top));
    const [oldShare, addedShare] = [Math.exp(old - total), Math.exp(added - total)];
    sum.logPartition[row] = total;
    sum.meanLogit[row] = oldShare * sum.meanLogit[row]! + addedShare * part.meanLogit[from]!;
    for (const name of ['mean', 'product'] as const) {
      const [into, values] = [sum[name], part[name]];
      const width = values.length / numRows;
      for (let j = 0; j < width; j++)
        into[row * width + j] = oldShare * into[row * width + j]! + addedShare * values[from * width + j]!;
    }
  }
}

function headGraphOf({ direction, entropyDirection }: HeadBuffers, isReplayed: boolean): GraphName {
  if (entropyDirection !== null) return isReplayed ? 'replayEntropyHead' : 'entropyHead';
  if (direction !== null) return isReplayed ? 'replayDirectionHead' : 'directionHead';
  return isReplayed ? 'replayHead' : 'head';
}

const rowOf = (matrix: Float32Array, row: number, columns: number) =>
  matrix.subarray(row * columns, (row + 1) * columns);

function dot(a: Float32Array, b: Float32Array): number {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i]! * b[i]!;
  return sum;
}
