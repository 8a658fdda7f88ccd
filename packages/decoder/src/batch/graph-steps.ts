import { projectionDims } from '@trainyard/transformer';
import type { Architecture } from '@trainyard/transformer';
import type { Feeds } from '../graphs/constant-graph.ts';
import type { DecoderGraphs } from '../graphs/decoder-graphs.ts';
import type { DecoderMemory } from '../memory/decoder-memory.ts';
import { GraphProducts } from '../products/graph-products.ts';
import type { ThreadTeam } from '../team/thread-team.ts';
import type { BlockRows, Rows } from './block-rows.ts';
import type { Attended, BlockSteps } from './block-steps.ts';

export class GraphSteps implements BlockSteps {
  readonly takesPlainSums = true;
  readonly #graphs: DecoderGraphs;
  readonly #products: GraphProducts;
  /** [rows, (heads + 2 · key heads)·D] */
  readonly #qkv: Float32Array;
  readonly #qkvWidth: number;

  constructor(graphs: DecoderGraphs, maxRows: number, memory: DecoderMemory, team: ThreadTeam) {
    this.#graphs = graphs;
    this.#products = new GraphProducts(graphs, maxRows, memory, team);
    this.#qkvWidth = qkvWidth(graphs.parts.architecture);
    this.#qkv = memory.take(maxRows * this.#qkvWidth);
  }

  static bytesFor(graphs: DecoderGraphs, maxRows: number, numThreads: number): number {
    return GraphProducts.bytesFor(graphs, maxRows, numThreads) + 4 * maxRows * qkvWidth(graphs.parts.architecture) + 64;
  }

  computedRows(numRows: number): number {
    return numRows;
  }

  attention(layer: number, { h, sums }: BlockRows, rope: Feeds, into: Attended): void {
    const [numRows] = h.dims;
    const qkv: Rows = { data: this.#qkv.subarray(0, numRows * this.#qkvWidth), dims: [numRows, this.#qkvWidth] };
    this.#products.multiply(layer, 'qkv', { x: h.data, sums: [sums.qkv.data], y: qkv.data });
    this.#graphs.parts.rotate(layer, qkv, rope, { ...into });
  }

  output(layer: number, { o, x, x2, h, sums }: BlockRows): void {
    const { parts } = this.#graphs;
    const product = parts.productOnto(x2, h);
    this.#products.multiply(layer, 'o', { x: o.data, sums: [sums.o.data], y: product.data });
    parts.addOutput(layer, 'attention', { residual: x, product, sum: x2 });
    parts.normaliseForFeedForward(layer, x2, h);
  }

  feedForward(layer: number, { h, activated, sums }: BlockRows): void {
    this.#products.multiply(layer, 'activated', { x: h.data, sums: [sums.gate.data, sums.up.data], y: activated.data });
  }

  down(layer: number, { activated, x, x2, h, sums }: BlockRows): void {
    const { parts } = this.#graphs;
    const product = parts.productOnto(x, h);
    this.#products.multiply(layer, 'down', { x: activated.data, sums: [sums.down.data], y: product.data });
    parts.addOutput(layer, 'feedForward', { residual: x2, product, sum: x });
    parts.normaliseForAttention(layer + 1, x, h);
  }

  head(hidden: Float32Array, logits: Float32Array): void {
    this.#graphs.head.run(hidden, logits);
  }

  close(): void {}
}

const qkvWidth = (architecture: Architecture): number => projectionDims(architecture, 'qkv').out;
