import { type Architecture, type ByProjection, outputProjection } from '@trainyard/transformer';
import type { Feeds } from '../graphs/constant-graph.ts';
import type { DecoderParts } from '../graphs/decoder-parts.ts';
import type { DecoderMemory } from '../memory/decoder-memory.ts';
import type { BlockRows, Rows } from './block-rows.ts';
import type { Attended, BlockSteps } from './block-steps.ts';

/** Products by matrices in any form. */
export interface RowProducts<Matrix> {
  /** Computes y += x · Wᵀ. Blocks until done. @param x [rows, in] @param y [rows, out], both in the memory */
  addProduct(x: Float32Array, matrix: Matrix, y: Float32Array): void;
}

export interface StepMatrices<Matrix> {
  readonly layers: readonly ByProjection<Matrix>[];
  /** [V, H] */
  readonly head: Matrix;
}

/** Rows of logits that are computed together; weights are read again for more. */
const MAX_LOGIT_ROWS = 64;

/**
 * Block steps by products outside the graphs: by quantised weights, a fifth of float32's memory traffic, or by weights
 * that stay in their file. Products equal the graphs' to the bit: same expanded weights, same order of sums.
 */
export class ProductSteps<Matrix> implements BlockSteps {
  readonly takesPlainSums = false;
  readonly #parts: DecoderParts;
  readonly #matrices: StepMatrices<Matrix>;
  readonly #products: RowProducts<Matrix>;
  readonly #hidden: Float32Array;
  readonly #logits: Float32Array;
  readonly #logitRows: number;

  static bytesFor({ hiddenSize, vocabSize }: Architecture, maxRows: number): number {
    return 4 * Math.min(MAX_LOGIT_ROWS, maxRows) * (hiddenSize + vocabSize) + 128;
  }

  /** @param memory of all rows, with room for {@link bytesFor} */
  constructor(
    parts: DecoderParts,
    by: { readonly matrices: StepMatrices<Matrix>; readonly products: RowProducts<Matrix> },
    maxRows: number,
    memory: DecoderMemory,
  ) {
    const { hiddenSize, vocabSize } = parts.architecture;
    this.#parts = parts;
    this.#matrices = by.matrices;
    this.#products = by.products;
    this.#logitRows = Math.min(MAX_LOGIT_ROWS, maxRows);
    this.#hidden = memory.take(this.#logitRows * hiddenSize);
    this.#logits = memory.take(this.#logitRows * vocabSize);
  }

  computedRows(numRows: number): number {
    return numRows;
  }

  attention(layer: number, { h, sums: { qkv } }: BlockRows, rope: Feeds, into: Attended): void {
    this.#products.addProduct(h.data, this.#matrices.layers[layer]!.qkv!, qkv.data);
    this.#parts.rotate(layer, qkv, rope, { ...into });
  }

  convolutionInput(layer: number, { h, sums: { convIn } }: BlockRows): Rows {
    this.#products.addProduct(h.data, this.#matrices.layers[layer]!.convIn!, convIn.data);
    return convIn;
  }

  output(layer: number, { mixed, x, x2, h, sums }: BlockRows): void {
    const projection = outputProjection(this.#parts.architecture, layer);
    const sum = sums[projection];
    this.#products.addProduct(mixed[projection].data, this.#matrices.layers[layer]![projection]!, sum.data);
    const product = this.#parts.productOnto(x2, sum);
    if (product === x2) x2.data.set(sum.data);
    this.#parts.addOutput(layer, 'attention', { residual: x, product, sum: x2 });
    this.#parts.normaliseForFeedForward(layer, x2, h);
  }

  feedForward(layer: number, { h, activated, sums: { gate, up } }: BlockRows): void {
    const weights = this.#matrices.layers[layer]!;
    this.#products.addProduct(h.data, weights.gate!, gate.data);
    this.#products.addProduct(h.data, weights.up!, up.data);
    this.#parts.between.activation.run({ gate, up }, { activated });
  }

  down(layer: number, { activated, x, x2, h, sums: { down } }: BlockRows): void {
    this.#products.addProduct(activated.data, this.#matrices.layers[layer]!.down!, down.data);
    const product = this.#parts.productOnto(x, down);
    if (product === x) x.data.set(down.data);
    this.#parts.addOutput(layer, 'feedForward', { residual: x2, product, sum: x });
    this.#parts.normaliseForAttention(layer + 1, x, h);
  }

  head(hidden: Float32Array, logits: Float32Array): void {
    const { hiddenSize, vocabSize } = this.#parts.architecture;
    const numRows = hidden.length / hiddenSize;
    for (let first = 0; first < numRows; first += this.#logitRows) {
      const end = Math.min(numRows, first + this.#logitRows);
      const dims = [end - first, hiddenSize] as const;
      const h: Rows = { data: this.#hidden.subarray(0, dims[0] * hiddenSize), dims };
      const data = hidden.subarray(first * hiddenSize, end * hiddenSize);
      this.#parts.between.normalise({ data, dims }, this.#parts.outputNorm, h);
      const result = this.#logits.subarray(0, dims[0] * vocabSize).fill(0);
      this.#products.addProduct(h.data, this.#matrices.head, result);
      logits.set(result, first * vocabSize);
    }
  }

  close(): void {}
}
