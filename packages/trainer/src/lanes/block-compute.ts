import {
  type Architecture,
  float32,
  floats,
  gradientName,
  linearDims,
  numRotated,
  OUTPUT_GATE_NAME,
  type OutsideProducts,
  projectionDims,
  queryWidth,
  type RopeTables,
  type Scratch,
  type Tensor,
  type Tensors,
} from '@trainyard/transformer';
import type { BlockIntermediates, GradientBuffers, KeyGradients } from './activations.ts';
import type { AdapterGradients, BlockParameters, NamedArrays } from './block-adapter.ts';
import type { GraphName, LaneRuntime, RunGraph } from './block-sessions.ts';
import { treeMask } from '../model/query-blocks.ts';
import type { AttentionBlock } from './row-plan.ts';
import type { TokenRange } from '../model/token-range.ts';
import { rowsOf } from '../model/token-range.ts';

interface AttentionInputs {
  /** True for the first layer. */
  readonly isFirst: boolean;
  readonly tables: RopeTables;
  readonly x: Float32Array;
  /** Summands of ∂k and ∂v. */
  readonly keys: readonly KeyGradients[];
}

/** Runs one transformer block over parts of a row. Every array is [T, features], read or written in place. */
export class BlockCompute {
  readonly #run: RunGraph;
  readonly #scratch: Scratch;
  readonly #parameters: BlockParameters;
  readonly #products: OutsideProducts | null;
  readonly #hiddenSize: number;
  readonly #feedForwardSize: number;
  readonly #headSize: number;
  readonly #numRotated: number;
  readonly #queryWidth: number;
  readonly #keyWidth: number;
  readonly #keyHeads: number;
  readonly #hasAttention: boolean;
  readonly #hasOutputGate: boolean;
  readonly #hasDeltaNet: boolean;
  /** Columns of o. */
  readonly #outputWidth: number;

  /**
   * @param products with the block's weights, if computed outside the graphs
   * @param runtime of the thread, shared by its blocks
   */
  constructor(
    architecture: Architecture,
    parameters: BlockParameters,
    products: OutsideProducts | null,
    { run, scratch }: LaneRuntime,
  ) {
    this.#run = run;
    this.#products = products;
    this.#scratch = scratch;
    this.#parameters = parameters;
    this.#hiddenSize = architecture.hiddenSize;
    this.#feedForwardSize = architecture.feedForwardSize;
    this.#headSize = architecture.headSize;
    this.#numRotated = numRotated(architecture);
    this.#keyHeads = architecture.numKvHeads;
    this.#hasAttention = parameters.convolution === null && parameters.deltaNet === null;
    this.#hasOutputGate = architecture.hasOutputGate && this.#hasAttention;
    this.#hasDeltaNet = parameters.deltaNet !== null;
    this.#outputWidth = projectionDims(architecture, this.#hasAttention ? 'o' : 'convOut').in;
    this.#queryWidth = queryWidth(architecture);
    this.#keyWidth = linearDims(architecture, 'k').out;
  }

  attentionInput(range: TokenRange, tables: RopeTables, x: Float32Array, into: BlockIntermediates): void {
    const feeds = { ...this.#attentionInputFeeds(range, tables), x: rowsOf(x, this.#hiddenSize, range) };
    this.#run(
      'attentionInput',
      feeds,
      {
        q: rowsOf(into.q, this.#queryWidth, range, (rows) => [1, rows, this.#queryWidth]),
        k: rowsOf(into.k, this.#keyWidth, range, (rows) => [1, rows, this.#keyWidth]),
        v: rowsOf(into.v, this.#keyWidth, range),
        ...this.#outputGate(OUTPUT_GATE_NAME, into.outputGate, range),
      },
      this.#products,
    );
  }

  attention(block: AttentionBlock, { q, k, v, o }: BlockIntermediates): void {
    const feeds = { ...this.#attentionFeeds(block), q: this.#queries(q, block), k: this.#keys(k), v: this.#keys(v) };
    this.#run('attention', feeds, { o: this.#queries(o, block) }, null);
  }

  /** The graph's name decides if y, the inputs of backward, or both are written. */
  output(
    graph: 'output' | 'savingOutput' | 'recomputingOutput',
    range: TokenRange,
    block: BlockIntermediates,
    { x, y }: { readonly x: Float32Array; readonly y: Float32Array },
  ): void {
    const feeds = {
      ...feedsOf(this.#parameters.output),
      x: rowsOf(x, this.#hiddenSize, range),
      o: rowsOf(block.o, this.#outputWidth, range),
      ...this.#outputGate(OUTPUT_GATE_NAME, block.outputGate, range),
    };
    this.#run(
      this.#outputGraph(graph),
      feeds,
      {
        ...(graph === 'recomputingOutput' ? {} : { y: rowsOf(y, this.#hiddenSize, range) }),
        ...(graph === 'output' ? {} : this.#outputViews(block, range)),
      },
      this.#products,
    );
  }

  /** Computes ∂y → ∂o, ∂x of the residual path; adds the gradients of the adapters of o, gate, up, down. */
  outputBackward(
    range: TokenRange,
    from: BlockIntermediates,
    gradients: GradientBuffers,
    adapter: AdapterGradients,
  ): void {
    const feeds = {
      ...feedsOf(this.#parameters.output),
      ...this.#outputViews(from, range),
      o: rowsOf(from.o, this.#outputWidth, range),
      ...this.#outputGate(OUTPUT_GATE_NAME, from.outputGate, range),
      [gradientName('y')]: rowsOf(gradients.dy, this.#hiddenSize, range),
    };
    this.#runAdding(this.#outputGraph('outputBackward'), feeds, adapter, {
      [gradientName('x')]: rowsOf(gradients.residual, this.#hiddenSize, range),
      [gradientName('o')]: rowsOf(this.#outputGradient(gradients), this.#outputWidth, range),
      ...this.#outputGate(gradientName(OUTPUT_GATE_NAME), gradients.outputGate, range),
    });
  }

  /** Like {@link outputBackward} for a block with experts, from the gradients that they gave. */
  routedBackward(
    range: TokenRange,
    { own, feeds }: { readonly own: BlockIntermediates; readonly feeds: Tensors },
    gradients: GradientBuffers,
    adapter: AdapterGradients,
  ): void {
    const all = {
      ...feedsOf(this.#parameters.output),
      ...feeds,
      x2: rowsOf(own.x2, this.#hiddenSize, range),
      o: rowsOf(own.o, this.#queryWidth, range),
      [gradientName('y')]: rowsOf(gradients.dy, this.#hiddenSize, range),
    };
    this.#runAdding('routedBackward', all, adapter, {
      [gradientName('x')]: rowsOf(gradients.residual, this.#hiddenSize, range),
      [gradientName('o')]: rowsOf(gradients.dO, this.#queryWidth, range),
    });
  }

  /**
   * Clears key gradients before a lane's first `attentionBackward` of a layer; its queries see no key from row
   * `end` on.
   */
  clearKeyGradients(end: number, { dk, dv }: KeyGradients): void {
    for (const buffer of [dk, dv]) buffer.fill(0, 0, end * this.#keyWidth);
  }

  /** Computes ∂o → ∂q; adds ∂k and ∂v of the keys visible to the block. */
  attentionBackward(
    block: AttentionBlock,
    from: BlockIntermediates,
    gradients: GradientBuffers,
    into: KeyGradients,
  ): void {
    const feeds = {
      ...this.#attentionFeeds(block),
      q: this.#queries(from.q, block),
      k: this.#keys(from.k),
      v: this.#keys(from.v),
      o: this.#queries(from.o, block),
      [gradientName('o')]: this.#queries(gradients.dO, block),
    };
    const [dk, dv] = ['dk', 'dv'].map((name) => this.#scratch.take(name, block.keys.length * this.#keyWidth));
    this.#run(
      'attentionBackward',
      feeds,
      {
        [gradientName('q')]: this.#queries(gradients.dq, block),
        [gradientName('k')]: this.#keys(dk!),
        [gradientName('v')]: this.#keys(dv!),
      },
      null,
    );
    addRows(into.dk, dk!, block.keys, this.#keyWidth);
    addRows(into.dv, dv!, block.keys, this.#keyWidth);
  }

  /**
   * Computes ∂q, ∂k, ∂v, ∂residual → ∂x (except for the first layer); adds the gradients of the adapters of q, k,
   * v.
   */
  attentionInputBackward(
    range: TokenRange,
    { isFirst, tables, x, keys }: AttentionInputs,
    gradients: GradientBuffers,
    adapter: AdapterGradients,
  ): void {
    const numRows = range.end - range.start;
    const keyShape = [1, numRows, this.#keyWidth];
    const sum = (name: 'dk' | 'dv') => {
      const into = this.#scratch.take(`${name}.sum`, numRows * this.#keyWidth);
      const summands = keys.map((own) => own[name]);
      return sumRows(summands, this.#keyWidth, range, into);
    };
    const feeds = {
      ...this.#attentionInputFeeds(range, tables),
      x: rowsOf(x, this.#hiddenSize, range),
      [gradientName('q')]: rowsOf(gradients.dq, this.#queryWidth, range, (rows) => [1, rows, this.#queryWidth]),
      [gradientName('k')]: float32(sum('dk'), keyShape),
      [gradientName('v')]: float32(sum('dv'), keyShape.slice(1)),
      ...this.#outputGate(gradientName(OUTPUT_GATE_NAME), gradients.outputGate, range),
      [gradientName('residual')]: rowsOf(gradients.residual, this.#hiddenSize, range),
    };
    if (isFirst) return this.#runAdding('firstAttentionInputBackward', feeds, adapter, {});
    const results = { [gradientName('x')]: rowsOf(gradients.dy, this.#hiddenSize, range) };
    this.#runAdding('attentionInputBackward', feeds, adapter, results);
  }

  #runAdding(graph: GraphName, feeds: Tensors, adapter: AdapterGradients, results: Tensors): void {
    const runtime = { run: this.#run, scratch: this.#scratch };
    runAdding(runtime, { graph, feeds, results, products: this.#products }, adapter);
  }

  #outputGraph(graph: OutputGraph): GraphName {
    return this.#hasAttention ? graph : CONVOLUTION_OUTPUTS[graph];
  }

  #outputGradient({ dO, deltaOutputs }: GradientBuffers): Float32Array {
    return this.#hasDeltaNet ? deltaOutputs! : dO;
  }

  /** Rows of the output gate, or of its gradient, if there is one. */
  #outputGate(name: string, matrix: Float32Array | null, range: TokenRange): Tensors {
    return this.#hasOutputGate ? { [name]: rowsOf(matrix!, this.#queryWidth, range) } : {};
  }

  #attentionInputFeeds(range: TokenRange, { cos, sin }: RopeTables): Tensors {
    const half = this.#numRotated / 2;
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

  #attentionFeeds({ keyIndices, ...block }: AttentionBlock): Tensors {
    const { start, end, keys } = block;
    const mask = this.#scratch.take('mask', (end - start) * keys.length);
    treeMask(block, mask);
    return {
      ...feedsOf(this.#parameters.attention),
      keys: keyIndices,
      mask: float32(mask, [end - start, keys.length]),
    };
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

type OutputGraph = keyof typeof CONVOLUTION_OUTPUTS;

/** Graphs of a block's output by those after attention. */
const CONVOLUTION_OUTPUTS = {
  output: 'convolutionOutput',
  savingOutput: 'savingConvolutionOutput',
  recomputingOutput: 'recomputingConvolutionOutput',
  outputBackward: 'convolutionOutputBackward',
} as const;

/** Runs a backward graph, and adds its gradients of adapters. */
export function runAdding(
  { run, scratch }: LaneRuntime,
  call: { readonly graph: GraphName; readonly feeds: Tensors; readonly results: Tensors } & {
    readonly products: OutsideProducts | null;
  },
  adapter: AdapterGradients,
): void {
  const places = Object.entries(adapter).map(
    ([name, { dims }]) => [name, float32(scratch.take(name, dims[0]! * dims[1]!), dims)] as const,
  );
  const outputs = run(call.graph, call.feeds, { ...call.results, ...Object.fromEntries(places) }, call.products);
  for (const [name, { data: sum }] of Object.entries(adapter)) {
    const part = outputs[name];
    if (part === undefined) continue;
    const values = floats(part);
    for (let i = 0; i < sum.length; i++) sum[i]! += values[i]!;
  }
}

export const feedsOf = (arrays: NamedArrays): Tensors =>
  Object.fromEntries(Object.entries(arrays).map(([name, { data, dims }]) => [name, float32(data, dims)]));

/** matrix[rows[i]] += part[i], `columns` elements each. */
function addRows(matrix: Float32Array, part: Float32Array, rows: Int32Array, columns: number): void {
  for (let first = 0, end: number; first < rows.length; first = end) {
    end = first + 1;
    while (end < rows.length && rows[end] === rows[end - 1]! + 1) end++;
    // Adjacent rows are contiguous in both.
    const shift = (rows[first]! - first) * columns;
    for (let i = first * columns; i < end * columns; i++) matrix[i + shift]! += part[i]!;
  }
}

/** Adds matrices in their order; the sum is in `into` unless there is only one. */
function sumRows(
  [first, ...others]: readonly Float32Array[],
  columns: number,
  range: TokenRange,
  into: Float32Array,
): Float32Array {
  const [start, end] = [range.start * columns, range.end * columns];
  const rows = first!.subarray(start, end);
  if (others.length === 0) return rows;
  into.set(rows);
  for (const other of others) for (let i = 0; i < into.length; i++) into[i]! += other[start + i]!;
  return into;
}
