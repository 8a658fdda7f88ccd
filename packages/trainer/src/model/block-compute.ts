import type { Tensor } from 'onnxruntime-common';
import type { Tensors } from '../graph/session.ts';
import { float32, floats } from '../graph/session.ts';
import type { BlockIntermediates, GradientBuffers, KeyGradients } from './activations.ts';
import type { Architecture } from './architecture.ts';
import { linearDims } from './architecture.ts';
import type { BlockParameters } from './block-adapter.ts';
import { gradientName } from './block-graph.ts';
import type { RunGraph } from './block-sessions.ts';
import { treeMask } from './query-blocks.ts';
import type { AttentionBlock, RowTables } from './row-plan.ts';
import type { TokenRange } from './token-range.ts';
import { rowsOf } from './token-range.ts';

/** Runs one transformer block over parts of a row. Every array is [T, features], read or written in place. */
export class BlockCompute {
  readonly #run: RunGraph;
  readonly #parameters: BlockParameters;
  readonly #hiddenSize: number;
  readonly #feedForwardSize: number;
  readonly #headSize: number;
  readonly #queryWidth: number;
  readonly #keyWidth: number;
  readonly #keyHeads: number;

  constructor(architecture: Architecture, parameters: BlockParameters, run: RunGraph) {
    this.#run = run;
    this.#parameters = parameters;
    this.#hiddenSize = architecture.hiddenSize;
    this.#feedForwardSize = architecture.feedForwardSize;
    this.#headSize = architecture.headSize;
    this.#keyHeads = architecture.numKvHeads;
    this.#queryWidth = linearDims(architecture, 'q').out;
    this.#keyWidth = linearDims(architecture, 'k').out;
  }

  async attentionInput(range: TokenRange, tables: RowTables, x: Float32Array, into: BlockIntermediates): Promise<void> {
    const feeds = { ...this.#attentionInputFeeds(range, tables), x: rowsOf(x, this.#hiddenSize, range) };
    await this.#run('attentionInput', feeds, {
      q: rowsOf(into.q, this.#queryWidth, range, (rows) => [1, rows, this.#queryWidth]),
      k: rowsOf(into.k, this.#keyWidth, range, (rows) => [1, rows, this.#keyWidth]),
      v: rowsOf(into.v, this.#keyWidth, range),
    });
  }

  async attention(block: AttentionBlock, { q, k, v, o }: BlockIntermediates): Promise<void> {
    const feeds = { ...this.#attentionFeeds(block), q: this.#queries(q, block), k: this.#keys(k), v: this.#keys(v) };
    await this.#run('attention', feeds, { o: this.#queries(o, block) });
  }

  /** Writes y, what backward starts from, or both, as the graph's name tells. */
  async output(
    graph: 'output' | 'savingOutput' | 'recomputingOutput',
    range: TokenRange,
    x: Float32Array,
    block: BlockIntermediates,
    y: Float32Array,
  ): Promise<void> {
    const feeds = {
      ...feedsOf(this.#parameters.output),
      x: rowsOf(x, this.#hiddenSize, range),
      o: rowsOf(block.o, this.#queryWidth, range),
    };
    await this.#run(graph, feeds, {
      ...(graph === 'recomputingOutput' ? {} : { y: rowsOf(y, this.#hiddenSize, range) }),
      ...(graph === 'output' ? {} : this.#outputViews(block, range)),
    });
  }

  /** ∂y → ∂o, ∂x of the residual path and the gradients of the adapters of o, gate, up, down. */
  async outputBackward(range: TokenRange, from: BlockIntermediates, gradients: GradientBuffers): Promise<Tensors> {
    const feeds = {
      ...feedsOf(this.#parameters.output),
      ...this.#outputViews(from, range),
      o: rowsOf(from.o, this.#queryWidth, range),
      [gradientName('y')]: rowsOf(gradients.dy, this.#hiddenSize, range),
    };
    return await this.#run('outputBackward', feeds, {
      [gradientName('x')]: rowsOf(gradients.residual, this.#hiddenSize, range),
      [gradientName('o')]: rowsOf(gradients.dO, this.#queryWidth, range),
    });
  }

  /** ∂o → ∂q; adds ∂k and ∂v of the keys visible to the block. */
  async attentionBackward(
    block: AttentionBlock,
    from: BlockIntermediates,
    gradients: GradientBuffers,
    into: KeyGradients,
  ): Promise<void> {
    const feeds = {
      ...this.#attentionFeeds(block),
      q: this.#queries(from.q, block),
      k: this.#keys(from.k),
      v: this.#keys(from.v),
      o: this.#queries(from.o, block),
      [gradientName('o')]: this.#queries(gradients.dO, block),
    };
    const outputs = await this.#run('attentionBackward', feeds, {
      [gradientName('q')]: this.#queries(gradients.dq, block),
    });
    addRows(into.dk, floats(outputs[gradientName('k')]!), block.keys, this.#keyWidth);
    addRows(into.dv, floats(outputs[gradientName('v')]!), block.keys, this.#keyWidth);
  }

  /**
   * ∂q, ∂k, ∂v, ∂residual → ∂x (unless it is the first layer) and the gradients of the adapters of q, k, v.
   *
   * @param keys summands of ∂k and ∂v
   */
  async attentionInputBackward(
    isFirst: boolean,
    range: TokenRange,
    tables: RowTables,
    x: Float32Array,
    gradients: GradientBuffers,
    keys: readonly KeyGradients[],
  ): Promise<Tensors> {
    const keyShape = (rows: number) => [1, rows, this.#keyWidth];
    const feeds = {
      ...this.#attentionInputFeeds(range, tables),
      x: rowsOf(x, this.#hiddenSize, range),
      [gradientName('q')]: rowsOf(gradients.dq, this.#queryWidth, range, (rows) => [1, rows, this.#queryWidth]),
      [gradientName('k')]: float32(
        sumRows(
          keys.map(({ dk }) => dk),
          this.#keyWidth,
          range,
        ),
        keyShape(range.end - range.start),
      ),
      [gradientName('v')]: float32(
        sumRows(
          keys.map(({ dv }) => dv),
          this.#keyWidth,
          range,
        ),
        keyShape(range.end - range.start).slice(1),
      ),
      [gradientName('residual')]: rowsOf(gradients.residual, this.#hiddenSize, range),
    };
    if (isFirst) return await this.#run('firstAttentionInputBackward', feeds, {});
    const results = { [gradientName('x')]: rowsOf(gradients.dy, this.#hiddenSize, range) };
    return await this.#run('attentionInputBackward', feeds, results);
  }

  #attentionInputFeeds(range: TokenRange, { cos, sin }: RowTables): Tensors {
    const half = this.#headSize / 2;
    return {
      ...feedsOf(this.#parameters.attentionInput),
      cos: rowsOf(cos, half, range),
      sin: rowsOf(sin, half, range),
    };
  }

  #outputViews({ x2, gate, up }: BlockIntermediates, range: TokenRange): Tensors {
    return {
      x2: rowsOf(x2, this.#hiddenSize, range),
      gate: rowsOf(gate, this.#feedForwardSize, range),
      up: rowsOf(up, this.#feedForwardSize, range),
    };
  }

  #attentionFeeds({ start, end, keys, ends, keyIndices }: AttentionBlock): Tensors {
    const mask = treeMask({ start, end, keys, ends });
    return { keys: keyIndices, mask: float32(mask, [end - start, keys.length]) };
  }

  /** [Q, kvHeads, G, D] */
  #queries(matrix: Float32Array, range: TokenRange): Tensor {
    const group = this.#queryWidth / this.#keyWidth;
    return rowsOf(matrix, this.#queryWidth, range, (rows) => [rows, this.#keyHeads, group, this.#headSize]);
  }

  /** [T, kvHeads, 1, D] */
  #keys(matrix: Float32Array): Tensor {
    return float32(matrix, [matrix.length / this.#keyWidth, this.#keyHeads, 1, this.#headSize]);
  }
}

const feedsOf = (arrays: BlockParameters['output']): Tensors =>
  Object.fromEntries(Object.entries(arrays).map(([name, { data, dims }]) => [name, float32(data, dims)]));

/** matrix[rows[i]] += part[i], for rows of `columns` elements. */
function addRows(matrix: Float32Array, part: Float32Array, rows: Int32Array, columns: number): void {
  for (let first = 0, end: number; first < rows.length; first = end) {
    end = first + 1;
    while (end < rows.length && rows[end] === rows[end - 1]! + 1) end++;
    // Neighbours lie side by side in both.
    const shift = (rows[first]! - first) * columns;
    for (let i = first * columns; i < end * columns; i++) matrix[i + shift]! += part[i]!;
  }
}

/** Rows of a range, summed over matrices in their order. */
function sumRows([first, ...others]: readonly Float32Array[], columns: number, range: TokenRange): Float32Array {
  const [start, end] = [range.start * columns, range.end * columns];
  if (others.length === 0) return first!.subarray(start, end);
  const sum = first!.slice(start, end);
  for (const other of others) for (let i = 0; i < sum.length; i++) sum[i]! += other[start + i]!;
  return sum;
}
