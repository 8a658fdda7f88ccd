import { Bf16Product, computedRows } from '@trainyard/native';
import type { Bf16Ending, Bf16Weights } from '@trainyard/native';
import type { Architecture } from '@trainyard/transformer';
import type { Feeds } from '../graphs/constant-graph.ts';
import { vectorsOfHeads } from '../graphs/decoder-parts.ts';
import type { DecoderMemory } from '../memory/decoder-memory.ts';
import type { Bf16Matrices } from '../products/bf16-matrices.ts';
import { RoundedRows } from '../products/rounded-rows.ts';
import type { BlockRows, Rows } from './block-rows.ts';
import type { Attended, BlockSteps } from './block-steps.ts';

/** With matrices, and what they are multiplied by, in bf16; all else in single precision. */
export class Bf16Steps implements BlockSteps {
  readonly takesPlainSums = false;
  readonly #matrices: Bf16Matrices;
  readonly #products: Readonly<Record<'qkv' | 'o' | 'gate' | 'up' | 'down' | 'head', Bf16Product>>;
  /** [rows, width] of whatever is multiplied next. */
  readonly #rounded: RoundedRows;
  /** [rows, H] */
  readonly #hidden: Float32Array;

  /** @param maxRows of a batch @param memory of its rows, too */
  constructor(matrices: Bf16Matrices, maxRows: number, memory: DecoderMemory) {
    this.#matrices = matrices;
    const { library, layers, head } = matrices;
    const first = layers[0]!;
    const product = (weights: Bf16Weights, ending: Bf16Ending) => new Bf16Product(library, weights, ending);
    this.#products = {
      qkv: product(first.qkv, 'added'),
      o: product(first.o, 'added'),
      gate: product(first.gate, 'silu'),
      up: product(first.up, 'times'),
      down: product(first.down, 'added'),
      head: product(head, 'plain'),
    };
    const rows = computedRows(maxRows);
    this.#rounded = new RoundedRows(memory, rows * widestInput(matrices.parts.architecture));
    this.#hidden = memory.take(rows * head.dims.in);
  }

  /** Memory that it takes, bytes. */
  static bytesFor(architecture: Architecture, maxRows: number): number {
    const rows = computedRows(maxRows);
    return RoundedRows.bytesFor(rows * widestInput(architecture)) + 4 * rows * architecture.hiddenSize + 64;
  }

  computedRows(numRows: number): number {
    return computedRows(numRows);
  }

  begin({ x, h }: BlockRows): void {
    const { between, vectors } = this.#matrices.parts;
    between.normalise(x, vectors[0]!.attentionNorm, h);
  }

  attention(layer: number, { h, sums: { qkv } }: BlockRows, rope: Feeds, into: Attended): void {
    const { between, vectors } = this.#matrices.parts;
    this.#round(h);
    this.#multiply('qkv', layer, qkv);
    between.rotation.run({ ...rope, ...vectorsOfHeads(vectors[layer]!), qkv }, { ...into });
  }

  output(layer: number, { o, x2, h, sums }: BlockRows): void {
    const { between, vectors } = this.#matrices.parts;
    this.#round(o);
    this.#multiply('o', layer, sums.o);
    x2.data.set(sums.o.data);
    between.normalise(x2, vectors[layer]!.feedForwardNorm, h);
  }

  feedForward(layer: number, { h, activated, sums: { gate, up } }: BlockRows): void {
    this.#round(h);
    this.#multiply('gate', layer, gate);
    this.#multiply('up', layer, up, gate);
    activated.data.set(up.data);
  }

  down(layer: number, { activated, x, h, sums: { down } }: BlockRows): void {
    const { between, vectors } = this.#matrices.parts;
    this.#round(activated);
    this.#multiply('down', layer, down);
    x.data.set(down.data);
    const next = vectors[layer + 1];
    if (next !== undefined) between.normalise(x, next.attentionNorm, h);
  }

  head(hidden: Float32Array, logits: Float32Array): void {
    const { parts, head } = this.#matrices;
    const dims = [hidden.length / head.dims.in, head.dims.in] as const;
    const h: Rows = { data: this.#hidden.subarray(0, hidden.length), dims };
    parts.between.normalise({ data: hidden, dims }, parts.outputNorm, h);
    this.#round(h);
    const result = withRoom({ data: logits, dims: [dims[0], head.dims.out] });
    this.#products.head.run(head, this.#rounded.data, result, dims[0]);
  }

  close(): void {
    for (const product of Object.values(this.#products)) product.close();
  }

  #round(rows: Rows): void {
    this.#rounded.round(withRoom(rows));
  }

  /** The rounded rows by the weights of a layer. */
  #multiply(name: 'qkv' | 'o' | 'gate' | 'up' | 'down', layer: number, y: Rows, factor: Rows | null = null): void {
    const weights = this.#matrices.layers[layer]![name];
    const factors = factor === null ? null : withRoom(factor);
    this.#products[name].run(weights, this.#rounded.data, withRoom(y), y.dims[0], factors);
  }
}

const widestInput = ({ hiddenSize, feedForwardSize, numHeads, headSize }: Architecture): number =>
  Math.max(hiddenSize, feedForwardSize, numHeads * headSize);

/** Rows with those that are computed besides. */
function withRoom({ data, dims: [numRows, width] }: Rows): Float32Array {
  return new Float32Array(data.buffer, data.byteOffset, computedRows(numRows) * width);
}
