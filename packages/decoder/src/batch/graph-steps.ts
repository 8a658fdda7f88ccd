import { outputProjection, projectionDims, projectionsOf } from '@trainyard/transformer';
import type { Architecture, ProjectionName } from '@trainyard/transformer';
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
  /** Products of the first step: those before attention, a convolution or a gated delta net. */
  readonly #first: Float32Array;

  constructor(graphs: DecoderGraphs, maxRows: number, memory: DecoderMemory, team: ThreadTeam) {
    this.#graphs = graphs;
    this.#products = new GraphProducts(graphs, maxRows, memory, team);
    this.#first = memory.take(maxRows * firstWidth(graphs.parts.architecture));
  }

  static bytesFor(graphs: DecoderGraphs, maxRows: number, numThreads: number): number {
    return (
      GraphProducts.bytesFor(graphs, maxRows, numThreads) + 4 * maxRows * firstWidth(graphs.parts.architecture) + 64
    );
  }

  computedRows(numRows: number): number {
    return numRows;
  }

  attention(layer: number, { h, sums }: BlockRows, rope: Feeds, into: Attended): void {
    this.#graphs.parts.rotate(layer, this.#multiplyFirst(layer, 'qkv', h, sums.qkv), rope, { ...into });
  }

  convolutionInput(layer: number, { h, sums }: BlockRows): Rows {
    return this.#multiplyFirst(layer, 'convIn', h, sums.convIn);
  }

  output(layer: number, { mixed, x, x2, h, sums }: BlockRows): void {
    const { parts } = this.#graphs;
    const product = parts.productOnto(x2, h);
    const projection = outputProjection(parts.architecture, layer);
    this.#products.multiply(layer, projection, {
      x: mixed[projection].data,
      sums: [sums[projection].data],
      y: product.data,
    });
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

  #multiplyFirst(layer: number, name: (typeof FIRST)[number], h: Rows, { data: sums, dims }: Rows): Rows {
    const y: Rows = { data: this.#first.subarray(0, dims[0] * dims[1]), dims };
    this.#products.multiply(layer, name, { x: h.data, sums: [sums], y: y.data });
    return y;
  }
}

const FIRST = ['qkv', 'convIn'] as const satisfies readonly ProjectionName[];

const firstWidth = (architecture: Architecture): number =>
  Math.max(
    ...FIRST.filter((name) => projectionsOf(architecture).includes(name)).map(
      (name) => projectionDims(architecture, name).out,
    ),
  );
