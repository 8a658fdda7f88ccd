import {
  type ByProjection,
  byProjection,
  expandRows,
  type FileMatrix,
  float32,
  PROJECTION_NAMES,
  type ProjectionName,
  type StreamedWeights,
  type Tensors,
  weightName,
  type Workspace,
} from '@trainyard/transformer';
import type { TokenOperation, WeightBuffer } from './lane-schedule.ts';
import { equalPieces } from '../model/token-range.ts';

/** Matrices of blocks that stay in their file. */
export interface StreamedBlocks {
  readonly numLanes: number;
  readonly layers: readonly ByProjection<StreamedMatrix>[];
  /** Each projection of the first block that has it: blocks of one kind are equal. */
  readonly shapes: ByProjection<StreamedMatrix>;
}

interface StreamedMatrix {
  readonly matrix: FileMatrix;
  /** [out, columns of adapters], written by each pass */
  readonly b: Float32Array;
}

/** Memory for the matrices of two steps of tokens, shared by the lanes: [out, in + columns of adapters] each. */
export type WeightBuffers = Readonly<Record<WeightBuffer, ByProjection<Float32Array>>>;

// About 10 ms of one thread: between two pieces another process may take the cores.
const PIECE_VALUES = 1 << 23;

export function streamedBlocks({ files, blocks }: StreamedWeights, numLanes: number): StreamedBlocks {
  const layers = files.map((matrices, layer) =>
    byProjection(namesOf(matrices), (name) => ({ matrix: matrices[name]!, b: blocks[layer]!.matrices[name]!.data })),
  );
  return { numLanes, layers, shapes: Object.assign({}, ...layers.toReversed()) as ByProjection<StreamedMatrix> };
}

/** Buffers of a pass. */
export function weightBuffers({ shapes }: StreamedBlocks, workspace: Workspace): WeightBuffers {
  const buffer = (index: WeightBuffer) =>
    byProjection(namesOf(shapes), (name) => {
      const { matrix, b } = shapes[name]!;
      return workspace.take(`weights.${index}.${name}`, matrix.rows * matrix.columns + b.length);
    });
  return { 0: buffer(0), 1: buffer(1) };
}

/** One lane's share of the expansion, in pieces between which the cores may change hands. */
export function expansionPieces(
  { numLanes, layers }: StreamedBlocks,
  operations: readonly TokenOperation[],
  into: ByProjection<Float32Array>,
  lane: number,
): (() => void)[] {
  const needed = new Map(
    operations.flatMap(({ kind, layer }) =>
      projectionsOf(kind)
        .filter((name) => layers[layer]![name] !== undefined)
        .map((name) => [name, layer]),
    ),
  );
  return Array.from(needed, ([name, layer]) => {
    const { matrix, b } = layers[layer]![name]!;
    const { start, end } = equalPieces(matrix.rows, numLanes)[lane]!;
    const most = Math.max(1, Math.floor(PIECE_VALUES / matrix.columns));
    return Array.from({ length: Math.ceil((end - start) / most) }, (_, piece) => () => {
      const from = start + piece * most;
      expandRows(matrix, { start: from, end: Math.min(end, from + most) }, b, into[name]!);
    });
  }).flat();
}

/** Inputs of the graphs. */
export function bufferFeeds({ shapes }: StreamedBlocks, buffer: ByProjection<Float32Array>): Tensors {
  const entries = namesOf(shapes).map((name) => {
    const { rows } = shapes[name]!.matrix;
    return [weightName(name), float32(buffer[name]!, [rows, buffer[name]!.length / rows])] as const;
  });
  return Object.fromEntries(entries);
}

const namesOf = (parts: ByProjection<unknown>): ProjectionName[] =>
  PROJECTION_NAMES.filter((name) => parts[name] !== undefined);

/** Some of them are only in blocks of another kind. */
function projectionsOf(kind: TokenOperation['kind']): readonly ProjectionName[] {
  switch (kind) {
    case 'attentionInput':
    case 'attentionInputBackward':
      return ['qkv', 'convIn'];
    case 'combined':
      return [];
    default:
      return ['o', 'convOut', 'gate', 'up', 'down'];
  }
}
