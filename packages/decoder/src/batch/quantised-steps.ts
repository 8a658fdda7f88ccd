import type { Architecture } from '@trainyard/transformer';
import type { Feeds } from '../graphs/constant-graph.ts';
import type { DecoderParts } from '../graphs/decoder-parts.ts';
import type { DecoderMemory } from '../memory/decoder-memory.ts';
import type { QuantisedProducts } from '../products/quantised-products.ts';
import type { QuantisedWeights } from '../products/quantised-weights.ts';
import type { BlockRows, Rows } from './block-rows.ts';
import type { Attended, BlockSteps } from './block-steps.ts';

/** Maximum rows of a batch: above it the graphs' products are as fast. */
export const MAX_QUANTISED_ROWS = 4;

/**
 * Block steps by quantised weights, a fifth of float32's memory traffic. Products equal the graphs' to the bit:
 * same expanded weights, same order of sums.
 */
export class QuantisedSteps implements BlockSteps {
  readonly takesPlainSums = false;
  readonly #parts: DecoderParts;
  readonly #weights: QuantisedWeights;
  readonly #products: QuantisedProducts;
  readonly #hidden: Float32Array;
  readonly #logits: Float32Array;

  static bytesFor({ hiddenSize, vocabSize }: Architecture): number {
    return 4 * MAX_QUANTISED_ROWS * (hiddenSize + vocabSize) + 128;
  }

  constructor(parts: DecoderParts, weights: QuantisedWeights, products: QuantisedProducts, memory: DecoderMemory) {
    const { hiddenSize, vocabSize } = parts.architecture;
    this.#parts = parts;
    this.#weights = weights;
    this.#products = products;
    this.#hidden = memory.take(MAX_QUANTISED_ROWS * hiddenSize);
    this.#logits = memory.take(MAX_QUANTISED_ROWS * vocabSize);
  }

  computedRows(numRows: number): number {
    return numRows;
  }

  attention(layer: number, { h, sums: { qkv } }: BlockRows, rope: Feeds, into: Attended): void {
    this.#products.addProduct(h.data, this.#weights.layers[layer]!.qkv, qkv.data);
    this.#parts.rotate(layer, qkv, rope, { ...into });
  }

  output(layer: number, { o, x, x2, h, sums }: BlockRows): void {
    this.#products.addProduct(o.data, this.#weights.layers[layer]!.o, sums.o.data);
    const product = this.#parts.productOnto(x2, sums.o);
    if (product === x2) x2.data.set(sums.o.data);
    this.#parts.addNormalised(layer, 'attention', { residual: x, product, sum: x2 });
    this.#parts.normaliseForFeedForward(layer, x2, h);
  }

  feedForward(layer: number, { h, activated, sums: { gate, up } }: BlockRows): void {
    const weights = this.#weights.layers[layer]!;
    this.#products.addProduct(h.data, weights.gate, gate.data);
    this.#products.addProduct(h.data, weights.up, up.data);
    this.#parts.between.activation.run({ gate, up }, { activated });
  }

  down(layer: number, { activated, x, x2, h, sums: { down } }: BlockRows): void {
    this.#products.addProduct(activated.data, this.#weights.layers[layer]!.down, down.data);
    const product = this.#parts.productOnto(x, down);
    if (product === x) x.data.set(down.data);
    this.#parts.addNormalised(layer, 'feedForward', { residual: x2, product, sum: x });
    this.#parts.normaliseForAttention(layer + 1, x, h);
  }

  head(hidden: Float32Array, logits: Float32Array): void {
    const { hiddenSize } = this.#parts.architecture;
    const dims = [hidden.length / hiddenSize, hiddenSize] as const;
    const h: Rows = { data: this.#hidden.subarray(0, hidden.length), dims };
    this.#parts.between.normalise({ data: hidden, dims }, this.#parts.outputNorm, h);
    const result = this.#logits.subarray(0, logits.length).fill(0);
    this.#products.addProduct(h.data, this.#weights.head, result);
    logits.set(result);
  }

  close(): void {}
}
