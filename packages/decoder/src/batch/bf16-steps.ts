import { computedRows } from '@trainyard/native';
import type { Bf16Ending } from '@trainyard/native';
import type { Architecture, ProjectionName } from '@trainyard/transformer';
import type { Feeds } from '../graphs/constant-graph.ts';
import type { DecoderMemory } from '../memory/decoder-memory.ts';
import type { Bf16Matrices } from '../products/bf16-matrices.ts';
import { Bf16Products } from '../products/bf16-products.ts';
import { RoundedRows } from '../products/rounded-rows.ts';
import type { ThreadTeam } from '../team/thread-team.ts';
import type { BlockRows, Rows } from './block-rows.ts';
import type { Attended, BlockSteps } from './block-steps.ts';

/** The projections of a layer in the order of their products' numbers, and what becomes of each product. */
const ENDINGS: Readonly<Record<ProjectionName, Bf16Ending>> = {
  qkv: 'added',
  o: 'added',
  gate: 'silu',
  up: 'times',
  down: 'added',
};
const NAMES = Object.keys(ENDINGS) as ProjectionName[];

/** With matrices, and what they are multiplied by, in bf16; all else in single precision. */
export class Bf16Steps implements BlockSteps {
  readonly takesPlainSums = false;
  readonly #matrices: Bf16Matrices;
  readonly #products: Bf16Products;
  /** [rows, width] of whatever is multiplied next. */
  readonly #rounded: RoundedRows;
  /** [rows, H] */
  readonly #hidden: Float32Array;

  /** @param maxRows of a batch @param memory of its rows, too */
  constructor(matrices: Bf16Matrices, maxRows: number, memory: DecoderMemory, team: ThreadTeam) {
    this.#matrices = matrices;
    const { library, layers, head } = matrices;
    const blocks = layers.flatMap((layer) =>
      NAMES.map((name) => ({
        weights: layer[name],
        ending: ENDINGS[name],
        columns: matrices.columnsOf(layer[name]),
      })),
    );
    const factors = [...blocks, { weights: head, ending: 'plain' as const, columns: [] }];
    this.#products = new Bf16Products(library, factors, memory, team);
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

  attention(layer: number, { h, sums: { qkv } }: BlockRows, rope: Feeds, into: Attended): void {
    this.#round(h);
    this.#multiply('qkv', layer, qkv);
    this.#matrices.parts.rotate(layer, qkv, rope, { ...into });
  }

  output(layer: number, { o, x2, h, sums }: BlockRows): void {
    this.#round(o);
    this.#multiply('o', layer, sums.o);
    x2.data.set(sums.o.data);
    this.#matrices.parts.normaliseForFeedForward(layer, x2, h);
  }

  feedForward(layer: number, { h, activated, sums: { gate, up } }: BlockRows): void {
    this.#round(h);
    this.#multiply('gate', layer, gate);
    this.#multiply('up', layer, up, gate);
    activated.data.set(up.data);
  }

  down(layer: number, { activated, x, h, sums: { down } }: BlockRows): void {
    this.#round(activated);
    this.#multiply('down', layer, down);
    x.data.set(down.data);
    this.#matrices.parts.normaliseForAttention(layer + 1, x, h);
  }

  head(hidden: Float32Array, logits: Float32Array): void {
    const { parts, head } = this.#matrices;
    const dims = [hidden.length / head.dims.in, head.dims.in] as const;
    const h: Rows = { data: this.#hidden.subarray(0, hidden.length), dims };
    parts.between.normalise({ data: hidden, dims }, parts.outputNorm, h);
    this.#round(h);
    const result = withRoom({ data: logits, dims: [dims[0], head.dims.out] });
    this.#products.multiply(NAMES.length * this.#matrices.layers.length, this.#rounded.data, result, dims[0]);
  }

  close(): void {
    this.#products.close();
  }

  #round(rows: Rows): void {
    this.#rounded.round(withRoom(rows));
  }

  /** The rounded rows by the weights of a layer. */
  #multiply(name: ProjectionName, layer: number, y: Rows, factor: Rows | null = null): void {
    const matrix = NAMES.length * layer + NAMES.indexOf(name);
    const factors = factor === null ? null : withRoom(factor);
    this.#products.multiply(matrix, this.#rounded.data, withRoom(y), y.dims[0], factors);
  }
}

const widestInput = ({ hiddenSize, feedForwardSize, numHeads, headSize }: Architecture): number =>
  Math.max(hiddenSize, feedForwardSize, numHeads * headSize);

/** Rows with those that are computed besides. */
function withRoom({ data, dims: [numRows, width] }: Rows): Float32Array {
  return new Float32Array(data.buffer, data.byteOffset, computedRows(numRows) * width);
}
