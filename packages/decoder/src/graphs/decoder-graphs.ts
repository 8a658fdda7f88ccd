import { closedWith, returnFreeMemory } from '@trainyard/native';
import type { GgufFile } from '@trainyard/native';
import { BlockGraph, MatrixReader, projectionDims, weightName } from '@trainyard/transformer';
import type { Architecture, Outputs, ProjectionName } from '@trainyard/transformer';
import { columnRanges, type ColumnRange } from './column-ranges.ts';
import { ConstantGraph } from './constant-graph.ts';
import { DecoderHead } from './decoder-head.ts';
import { DecoderParts } from './decoder-parts.ts';

/** Products that one graph computes, by their projections. */
export const BLOCK_PRODUCTS = {
  qkv: ['qkv'],
  convIn: ['convIn'],
  o: ['o'],
  convOut: ['convOut'],
  activated: ['gate', 'up'],
  down: ['down'],
} as const satisfies Readonly<Record<string, readonly ProjectionName[]>>;
export type BlockProduct = keyof typeof BLOCK_PRODUCTS;
export const BLOCK_PRODUCT_NAMES = Object.keys(BLOCK_PRODUCTS) as BlockProduct[];

export interface ColumnGraph extends ColumnRange {
  readonly graph: ConstantGraph;
}

/**
 * Products of a decoder as graphs, shared by threads by columns, and added to sums from outside.
 *
 * Weights are constants, which ONNX Runtime lays out once: as inputs, products took 2.6 times as long for 8 rows
 * and 1.5 times for 64.
 */
export class DecoderGraphs {
  readonly parts: DecoderParts;
  /** Layers have no columns of the products of other kinds of layers. */
  readonly layers: readonly Readonly<Record<BlockProduct, readonly ColumnGraph[]>>[];
  readonly head: DecoderHead;
  readonly #opened: DisposableStack;

  constructor(
    file: Pick<GgufFile, 'tensors' | 'readF32' | 'readStored'>,
    architecture: Architecture,
    numThreads: number,
  ) {
    // If the constructor throws (truncated file, out of memory), no caller could close these.
    using opened = new DisposableStack();
    this.parts = closedWith(opened, new DecoderParts(file, architecture));
    const graph = new BlockGraph(architecture, 'outside');
    // A session copies its weights.
    const reader = new MatrixReader(file, architecture);
    this.layers = this.parts.vectors.map((_, layer) => {
      const matrices = new Map(reader.read(layer).map(({ projection, ...matrix }) => [projection, matrix]));
      const columns = (product: BlockProduct, outputs: (numColumns: number) => Outputs): ColumnGraph[] => {
        const projections = BLOCK_PRODUCTS[product];
        if (!projections.every((name) => matrices.has(name))) return [];
        const { out } = projectionDims(architecture, projections[0]);
        return columnRanges(out, numThreads).map((range) => {
          const weights = projections.map((projection) => {
            const { dims, data } = matrices.get(projection)!;
            const start = range.first * dims.in;
            const some = data.subarray(start, start + range.count * dims.in);
            return [weightName(projection), { data: some, dims: [range.count, dims.in] }] as const;
          });
          return {
            ...range,
            graph: closedWith(opened, new ConstantGraph(outputs(range.count), Object.fromEntries(weights), 1)),
          };
        });
      };
      const one = (name: Exclude<BlockProduct, 'activated'>) => columns(name, (count) => graph.columnsOf(name, count));
      return {
        qkv: one('qkv'),
        convIn: one('convIn'),
        o: one('o'),
        convOut: one('convOut'),
        activated: columns('activated', (count) => graph.activatedColumns(count)),
        down: one('down'),
      };
    });
    this.head = closedWith(
      opened,
      new DecoderHead({ vocabulary: this.parts.readHead(file), norm: this.parts.outputNorm }, architecture, numThreads),
    );
    this.#opened = opened.move();
    returnFreeMemory();
  }

  close(): void {
    this.#opened.dispose();
    returnFreeMemory();
  }
}
