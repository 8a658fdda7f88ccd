import assert from 'node:assert';
import { projectionDims, sumName } from '@trainyard/transformer';
import { BLOCK_PRODUCT_NAMES, BLOCK_PRODUCTS } from '../graphs/decoder-graphs.ts';
import type { BlockProduct, DecoderGraphs } from '../graphs/decoder-graphs.ts';
import type { DecoderMemory } from '../memory/decoder-memory.ts';
import type { ThreadTeam } from '../team/thread-team.ts';
import {
  GRAPH_PRODUCT_CELL,
  type GraphProductData,
  GraphProductWork,
  type GraphProductWorkData,
} from './graph-product-work.ts';

export class GraphProducts {
  readonly #products: readonly GraphProductData[];
  readonly #cells = new Float64Array(new SharedArrayBuffer(8 * Object.keys(GRAPH_PRODUCT_CELL).length));
  readonly #compute: (unit: number) => void;
  readonly #memory: DecoderMemory;
  readonly #team: ThreadTeam;
  readonly #work: number;

  /** @param graphs open as long as this object @param memory of inputs and results */
  constructor(graphs: DecoderGraphs, maxRows: number, memory: DecoderMemory, team: ThreadTeam) {
    this.#memory = memory;
    const { architecture } = graphs.parts;
    this.#products = graphs.layers.flatMap((layer) =>
      BLOCK_PRODUCT_NAMES.map((name) => {
        const projections = BLOCK_PRODUCTS[name];
        const columns = layer[name].map(({ graph, first, count }) => ({ first, count, place: graph.place }));
        const dims = columns.length === 0 ? { in: 0, out: 0 } : projectionDims(architecture, projections[0]);
        return { ...dims, sumNames: projections.map(sumName), columns };
      }),
    );
    const length = GraphProducts.#bufferLength(graphs, maxRows);
    const buffers = Array.from({ length: team.numThreads }, () => memory.take(length).byteOffset);
    const data: GraphProductWorkData = { products: this.#products, memory: memory.shared, buffers, cells: this.#cells };
    const own = new GraphProductWork(data, 0);
    this.#compute = (unit) => own.compute(unit);
    this.#team = team;
    this.#work = team.add({ kind: 'graph-product', data });
  }

  static bytesFor(graphs: DecoderGraphs, maxRows: number, numThreads: number): number {
    return numThreads * (4 * GraphProducts.#bufferLength(graphs, maxRows) + 64);
  }

  /**
   * Computes y = sums + x · Wᵀ; for `activated` silu(gate) · up of two such sums. Blocks until done. All arrays
   * are in the memory.
   *
   * @param rows `x` [rows, in], `sums` [rows, out] each, `y` [rows, out]
   */
  multiply(
    layer: number,
    product: BlockProduct,
    { x, sums, y }: { x: Float32Array; sums: readonly Float32Array[]; y: Float32Array },
  ): void {
    for (const { buffer } of [x, y, ...sums]) assert(buffer === this.#memory.shared.buffer, 'rows of another memory');
    const cells = this.#cells;
    const index = BLOCK_PRODUCT_NAMES.length * layer + BLOCK_PRODUCT_NAMES.indexOf(product);
    const { in: inner, columns } = this.#products[index]!;
    cells[GRAPH_PRODUCT_CELL.product] = index;
    cells[GRAPH_PRODUCT_CELL.numRows] = x.length / inner;
    cells[GRAPH_PRODUCT_CELL.x] = x.byteOffset;
    cells[GRAPH_PRODUCT_CELL.y] = y.byteOffset;
    for (const [i, sum] of sums.entries()) cells[GRAPH_PRODUCT_CELL.firstSum + i] = sum.byteOffset;
    this.#team.run(this.#work, columns.length, columns.length > 1, this.#compute);
  }

  static #bufferLength({ layers }: DecoderGraphs, maxRows: number): number {
    const widths = layers.flatMap((layer) =>
      BLOCK_PRODUCT_NAMES.flatMap((name) => layer[name].map(({ count }) => count * BLOCK_PRODUCTS[name].length)),
    );
    return maxRows * Math.max(...widths);
  }
}
