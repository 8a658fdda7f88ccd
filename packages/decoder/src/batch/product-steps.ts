import { type Architecture, type ByProjection, outputProjection, type ProjectionName } from '@trainyard/transformer';
import type { Feeds } from '../graphs/constant-graph.ts';
import type { DecoderParts } from '../graphs/decoder-parts.ts';
import type { DecoderMemory } from '../memory/decoder-memory.ts';
import { SharedActivation } from '../products/shared-activation.ts';
import type { SumOfProducts } from '../products/sum-of-products.ts';
import type { ThreadTeam } from '../team/thread-team.ts';
import type { BlockRows, Rows } from './block-rows.ts';
import type { Attended, BlockSteps } from './block-steps.ts';

/** Products by matrices in any form. */
export interface RowProducts<Matrix> {
  /** Computes y = sum + x · Wᵀ. Blocks until done. @param x [rows, in], like sums and results in the memory */
  multiply(x: Float32Array, matrix: Matrix, rows: SumOfProducts): void;
  /** True if results may be in any shared memory. */
  readonly writesAnywhere: boolean;
}

export interface StepMatrices<Matrix> {
  readonly layers: readonly ByProjection<Matrix>[];
  /** [V, H] */
  readonly head: Matrix;
}

/** Rows of logits that are computed together; weights are read again for more. */
const MAX_LOGIT_ROWS = 64;

/**
 * Block steps by products outside the graphs: by packed weights, or by weights that stay in their file. Products equal
 * the graphs' to the bit: same expanded weights, same order of sums.
 */
export class ProductSteps<Matrix> implements BlockSteps {
  readonly takesPlainSums = true;
  readonly #parts: DecoderParts;
  readonly #matrices: StepMatrices<Matrix>;
  readonly #products: RowProducts<Matrix>;
  readonly #hidden: Float32Array;
  readonly #activation: SharedActivation;
  /** Null: products are written where they are wanted. */
  readonly #logits: Float32Array | null;
  readonly #logitRows: number;

  static bytesFor({ hiddenSize, vocabSize }: Architecture, maxRows: number): number {
    return 4 * Math.min(MAX_LOGIT_ROWS, maxRows) * (hiddenSize + vocabSize) + 128;
  }

  /** @param maxRows of a batch @param memory of all rows, with room for {@link bytesFor} */
  constructor(
    parts: DecoderParts,
    by: { readonly matrices: StepMatrices<Matrix>; readonly products: RowProducts<Matrix> },
    maxRows: number,
    { memory, team }: { readonly memory: DecoderMemory; readonly team: ThreadTeam },
  ) {
    const { hiddenSize, vocabSize } = parts.architecture;
    this.#parts = parts;
    this.#matrices = by.matrices;
    this.#products = by.products;
    this.#logitRows = Math.min(MAX_LOGIT_ROWS, maxRows);
    this.#hidden = memory.take(this.#logitRows * hiddenSize);
    this.#logits = by.products.writesAnywhere ? null : memory.take(this.#logitRows * vocabSize);
    this.#activation = new SharedActivation(parts.between.activation, memory, team);
  }

  computedRows(numRows: number): number {
    return numRows;
  }

  attention(layer: number, rows: BlockRows, rope: Feeds, into: Attended): void {
    this.#multiply(layer, 'qkv', rows.h, startOf(rows, 'qkv'));
    this.#parts.rotate(layer, rows.products.qkv, rope, { ...into });
  }

  convolutionInput(layer: number, rows: BlockRows): Rows {
    this.#multiply(layer, 'convIn', rows.h, startOf(rows, 'convIn'));
    return rows.products.convIn;
  }

  output(layer: number, { mixed, x, x2, h, sums, isPlain }: BlockRows): void {
    const projection = outputProjection(this.#parts.architecture, layer);
    const product = this.#parts.productOnto(x2, h);
    const sum = isPlain && product !== x2 ? null : sums[projection].data;
    this.#multiply(layer, projection, mixed[projection], { sum, y: product.data });
    this.#parts.addOutput(layer, 'attention', { residual: x, product, sum: x2 });
    this.#parts.normaliseForFeedForward(layer, x2, h);
  }

  feedForward(layer: number, rows: BlockRows): void {
    for (const name of ['gate', 'up'] as const) this.#multiply(layer, name, rows.h, startOf(rows, name));
    this.#activation.run(rows.products, rows.activated);
  }

  down(layer: number, { activated, x, x2, h, sums, isPlain }: BlockRows): void {
    const product = this.#parts.productOnto(x, h);
    const sum = isPlain && product !== x ? null : sums.down.data;
    this.#multiply(layer, 'down', activated, { sum, y: product.data });
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
      const into = logits.subarray(first * vocabSize, end * vocabSize);
      const y = this.#logits?.subarray(0, into.length) ?? into;
      this.#products.multiply(h.data, this.#matrices.head, { sum: null, y });
      if (y !== into) into.set(y);
    }
  }

  close(): void {}

  #multiply(layer: number, projection: ProjectionName, { data: x }: Rows, rows: SumOfProducts): void {
    this.#products.multiply(x, this.#matrices.layers[layer]![projection]!, rows);
  }
}

/** Sums of a product that only the next step reads. */
const startOf = ({ sums, products, isPlain }: BlockRows, name: keyof BlockRows['products']): SumOfProducts => ({
  sum: isPlain ? null : sums[name].data,
  y: products[name].data,
});
