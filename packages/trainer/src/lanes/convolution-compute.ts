import {
  type Architecture,
  convolutionParts,
  convolve,
  float32,
  gradientName,
  type OutsideProducts,
  projectionDims,
  type Tensor,
} from '@trainyard/transformer';
import type { BlockIntermediates, GradientBuffers } from './activations.ts';
import type { AdapterGradients, BlockParameters } from './block-adapter.ts';
import { feedsOf, runAdding } from './block-compute.ts';
import type { LaneRuntime } from './block-sessions.ts';
import type { RowTree } from '../model/query-blocks.ts';
import type { TokenRange } from '../model/token-range.ts';
import { rowsOf } from '../model/token-range.ts';

/**
 * Runs the products of one block before a convolution or a gated delta net, over parts of a row.
 */
export class MixerInput {
  readonly #runtime: LaneRuntime;
  readonly #input: BlockParameters['attentionInput'];
  readonly #products: OutsideProducts | null;
  readonly #hiddenSize: number;
  readonly #width: number;

  /** @param products with the block's weights, if computed outside the graphs */
  constructor(
    architecture: Architecture,
    { attentionInput }: BlockParameters,
    products: OutsideProducts | null,
    runtime: LaneRuntime,
  ) {
    this.#runtime = runtime;
    this.#input = attentionInput;
    this.#products = products;
    this.#hiddenSize = architecture.hiddenSize;
    this.#width = projectionDims(architecture, 'convIn').out;
  }

  /** Computes the products bcx, and u of a convolution. */
  forward(range: TokenRange, x: Float32Array, { bcx, u }: BlockIntermediates): void {
    const feeds = { ...feedsOf(this.#input), x: rowsOf(x, this.#hiddenSize, range) };
    const results = {
      bcx: rowsOf(bcx, this.#width, range),
      ...(u.length > 0 && { u: rowsOf(u, this.#hiddenSize, range) }),
    };
    this.#runtime.run('convolutionInput', feeds, results, this.#products);
  }

  /**
   * Computes ∂bcx → ∂x, except for the first layer; adds the gradients of the adapter.
   *
   * @param from `x` of the layer, and ∂bcx of the range
   */
  backward(
    range: TokenRange,
    from: { readonly x: Float32Array; readonly isFirst: boolean; readonly dBcx: Tensor },
    gradients: GradientBuffers,
    adapter: AdapterGradients,
  ): void {
    const feeds = {
      ...feedsOf(this.#input),
      x: rowsOf(from.x, this.#hiddenSize, range),
      [gradientName('bcx')]: from.dBcx,
      [gradientName('residual')]: rowsOf(gradients.residual, this.#hiddenSize, range),
    };
    const results = { [gradientName('x')]: rowsOf(gradients.dy, this.#hiddenSize, range) };
    const [graph, own] = from.isFirst
      ? (['firstConvolutionInputBackward', {}] as const)
      : (['convolutionInputBackward', results] as const);
    runAdding(this.#runtime, { graph, feeds, results: own, products: this.#products }, adapter);
  }
}

/**
 * Runs the convolution of one block over parts of a row, in the steps of attention: a token needs u of the tokens
 * before it, from this lane or lower ones, and its u gets gradients from tokens after it, from this lane or higher ones.
 */
export class ConvolutionCompute {
  readonly #runtime: LaneRuntime;
  readonly #input: MixerInput;
  /** [size, H] */
  readonly #weights: Float32Array;
  readonly #size: number;
  readonly #width: number;
  readonly #rows: Int32Array;
  readonly #sum: Float64Array;

  /** @param weights [size, H] */
  constructor(
    { convolution, hiddenSize }: Architecture,
    weights: Float32Array,
    input: MixerInput,
    runtime: LaneRuntime,
  ) {
    this.#runtime = runtime;
    this.#input = input;
    this.#weights = weights;
    this.#size = convolution!.size;
    this.#width = hiddenSize;
    this.#rows = new Int32Array(this.#size);
    this.#sum = new Float64Array(hiddenSize);
  }

  /** Computes o = c ∘ Σ w ∘ u. */
  output({ start, end }: TokenRange, { parents }: RowTree, { bcx, u, o }: BlockIntermediates): void {
    const width = this.#width;
    const { c } = convolutionParts(width);
    for (let token = start; token < end; token++) {
      this.#convolve(token, parents, u);
      const from = 3 * token * width + c;
      for (let i = 0; i < width; i++) o[token * width + i] = bcx[from + i]! * this.#sum[i]!;
    }
  }

  /** Computes ∂o → ∂c, in the place of ∂q, and the gradient of Σ w ∘ u. @param sums [T, H], written */
  outputBackward(
    { start, end }: TokenRange,
    { parents }: RowTree,
    { bcx, u }: BlockIntermediates,
    { dO, dq, sums }: Pick<GradientBuffers, 'dO' | 'dq'> & { readonly sums: Float32Array },
  ): void {
    const width = this.#width;
    const { c } = convolutionParts(width);
    for (let token = start; token < end; token++) {
      this.#convolve(token, parents, u);
      const [to, from] = [token * width, 3 * token * width + c];
      for (let i = 0; i < width; i++) {
        dq[to + i] = dO[to + i]! * this.#sum[i]!;
        sums[to + i] = dO[to + i]! * bcx[from + i]!;
      }
    }
  }

  /**
   * Computes ∂c and the gradients of sums → ∂x, except for the first layer; adds the gradients of the adapter.
   *
   * @param from `x` of the layer, and `sums` of its tokens and those after them
   */
  inputBackward(
    range: TokenRange,
    tree: RowTree,
    from: { readonly own: BlockIntermediates; readonly x: Float32Array; readonly isFirst: boolean } & {
      readonly sums: Float32Array;
      readonly gradients: GradientBuffers;
    },
    adapter: AdapterGradients,
  ): void {
    const { own, x, isFirst, sums, gradients } = from;
    const width = this.#width;
    const numTokens = range.end - range.start;
    const dBcx = this.#runtime.scratch.take('convolution.dBcx', 3 * numTokens * width);
    const parts = convolutionParts(width);
    for (let token = range.start; token < range.end; token++) {
      this.#sum.fill(0);
      this.#addGradient(token, 0, tree, sums);
      const to = 3 * (token - range.start) * width;
      const at = 3 * token * width;
      for (let i = 0; i < width; i++) {
        dBcx[to + parts.b + i] = this.#sum[i]! * own.bcx[at + parts.x + i]!;
        dBcx[to + parts.c + i] = gradients.dq[token * width + i]!;
        dBcx[to + parts.x + i] = this.#sum[i]! * own.bcx[at + parts.b + i]!;
      }
    }
    const products = { x, isFirst, dBcx: float32(dBcx, [numTokens, 3 * width]) };
    this.#input.backward(range, products, gradients, adapter);
  }

  #convolve(token: number, parents: Int32Array, u: Float32Array): void {
    for (let j = this.#size - 1, row = token; j >= 0; j--) {
      this.#rows[j] = row;
      if (row >= 0) row = parents[row]!;
    }
    convolve(this.#weights, u, this.#rows, this.#sum);
  }

  /** Adds the gradient of u of a token from `token`, so many tokens after it, and from the tokens after that. */
  #addGradient(token: number, distance: number, tree: RowTree, sums: Float32Array): void {
    const width = this.#width;
    const [weight, from] = [(this.#size - 1 - distance) * width, token * width];
    for (let i = 0; i < width; i++) this.#sum[i]! += this.#weights[weight + i]! * sums[from + i]!;
    if (distance === this.#size - 1) return;
    // The first child follows its parent, and each other one the last descendant of the one before it.
    for (let child = token + 1; child < tree.ends[token]!; child = tree.ends[child]!)
      this.#addGradient(child, distance + 1, tree, sums);
  }
}
