import { computedRows } from '@trainyard/native';
import type { Bf16Ending } from '@trainyard/native';
import { projectionDims, UnsupportedModelError } from '@trainyard/transformer';
import type { Architecture, ProjectionName } from '@trainyard/transformer';
import type { Feeds } from '../graphs/constant-graph.ts';
import type { DecoderMemory } from '../memory/decoder-memory.ts';
import type { Bf16Matrices } from '../products/bf16-matrices.ts';
import { Bf16Products } from '../products/bf16-products.ts';
import { RoundedRows } from '../products/rounded-rows.ts';
import type { ThreadTeam } from '../team/thread-team.ts';
import type { BlockRows, Rows } from './block-rows.ts';
import type { Attended, BlockSteps } from './block-steps.ts';

/** Projections of a layer in the order of their matrices. */
const NAMES = ['qkv', 'o', 'gate', 'up', 'down'] as const satisfies readonly ProjectionName[];

/** Block steps with matrices and their inputs in bf16. */
export class Bf16Steps implements BlockSteps {
  readonly takesPlainSums = true;
  readonly #matrices: Bf16Matrices;
  readonly #products: Bf16Products;
  /** [rows, width] of the next input. */
  readonly #rounded: RoundedRows;
  /** [rows, H] */
  readonly #hidden: Float32Array;
  /** Products [rows, (heads + 2 · key heads)·D] and [rows, F], for which no sums exist. */
  readonly #qkv: Float32Array;
  readonly #gate: Float32Array;

  /** @param maxRows of a batch @param memory also of the batch's rows */
  constructor(matrices: Bf16Matrices, maxRows: number, memory: DecoderMemory, team: ThreadTeam) {
    this.#matrices = matrices;
    const { library, layers, head } = matrices;
    const blocks = layers.flatMap((layer) =>
      NAMES.map((name) => ({ weights: layer[name], columns: matrices.columnsOf(layer[name]) })),
    );
    this.#products = new Bf16Products(library, [...blocks, { weights: head, columns: [] }], memory, team);
    const rows = computedRows(maxRows);
    const { architecture } = matrices.parts;
    this.#rounded = new RoundedRows(memory, rows * widestInput(architecture));
    this.#hidden = memory.take(rows * head.dims.in);
    this.#qkv = memory.take(rows * projectionDims(architecture, 'qkv').out);
    this.#gate = memory.take(rows * projectionDims(architecture, 'gate').out);
  }

  static bytesFor(architecture: Architecture, maxRows: number): number {
    const rows = computedRows(maxRows);
    const widths = [
      architecture.hiddenSize,
      ...(['qkv', 'gate'] as const).map((name) => projectionDims(architecture, name).out),
    ];
    const ownBytes = widths.reduce((sum, width) => sum + 4 * rows * width + 64, 0);
    return RoundedRows.bytesFor(rows * widestInput(architecture)) + ownBytes;
  }

  computedRows(numRows: number): number {
    return computedRows(numRows);
  }

  attention(layer: number, { h, sums, isPlain }: BlockRows, rope: Feeds, into: Attended): void {
    const qkv = isPlain ? rowsOf(this.#qkv, sums.qkv) : sums.qkv;
    this.#round(h);
    this.#multiply(matrixOf(layer, 'qkv'), isPlain ? 'plain' : 'added', qkv);
    this.#matrices.parts.rotate(layer, qkv, rope, { ...into });
  }

  convolutionInput(): never {
    throw new UnsupportedModelError('bf16 does not support convolutions');
  }

  output(layer: number, { mixed, x2, h, sums }: BlockRows): void {
    this.#round(mixed.o);
    this.#multiply(matrixOf(layer, 'o'), 'plus', x2, sums.o);
    this.#matrices.parts.normaliseForFeedForward(layer, x2, h);
  }

  feedForward(layer: number, { h, activated, sums, isPlain }: BlockRows): void {
    const gate = isPlain ? rowsOf(this.#gate, sums.gate) : sums.gate;
    this.#round(h);
    this.#multiply(matrixOf(layer, 'gate'), isPlain ? 'silu' : 'addedSilu', gate);
    if (isPlain) return this.#multiply(matrixOf(layer, 'up'), 'times', activated, gate);
    this.#multiply(matrixOf(layer, 'up'), 'addedTimes', sums.up, gate);
    activated.data.set(sums.up.data);
  }

  down(layer: number, { activated, x, h, sums }: BlockRows): void {
    this.#round(activated);
    this.#multiply(matrixOf(layer, 'down'), 'plus', x, sums.down);
    this.#matrices.parts.normaliseForAttention(layer + 1, x, h);
  }

  head(hidden: Float32Array, logits: Float32Array): void {
    const { parts, head } = this.#matrices;
    const dims = [hidden.length / head.dims.in, head.dims.in] as const;
    const h: Rows = { data: this.#hidden.subarray(0, hidden.length), dims };
    parts.between.normalise({ data: hidden, dims }, parts.outputNorm, h);
    this.#round(h);
    const result = padded({ data: logits, dims: [dims[0], head.dims.out] });
    const matrix = NAMES.length * this.#matrices.layers.length;
    this.#products.multiply(matrix, 'plain', { x: this.#rounded.data, y: result, other: null }, dims[0]);
  }

  close(): void {
    this.#products.close();
  }

  #round(rows: Rows): void {
    this.#rounded.round(padded(rows));
  }

  /** Computes y ← ending(rounded rows · weights of a layer). @param other z of the ending */
  #multiply(matrix: number, ending: Bf16Ending, y: Rows, other: Rows | null = null): void {
    const rows = { x: this.#rounded.data, y: padded(y), other: other === null ? null : padded(other) };
    this.#products.multiply(matrix, ending, rows, y.dims[0]);
  }
}

const matrixOf = (layer: number, name: (typeof NAMES)[number]): number => NAMES.length * layer + NAMES.indexOf(name);

const rowsOf = (data: Float32Array, { dims }: Rows): Rows => ({ data: data.subarray(0, dims[0] * dims[1]), dims });

const widestInput = ({ hiddenSize, feedForwardSize, numHeads, headSize }: Architecture): number =>
  Math.max(hiddenSize, feedForwardSize, numHeads * headSize);

/** Rows with the padding rows that are computed too. */
function padded({ data, dims: [numRows, width] }: Rows): Float32Array {
  return new Float32Array(data.buffer, data.byteOffset, computedRows(numRows) * width);
}
