import type { GgufFile } from '@trainyard/native';
import {
  ALL_LINEAR_NAMES,
  byProjection,
  ggufLinear,
  linearDims,
  projectionDims,
  projectionParts,
  projectionsIn,
  toHalves,
} from '@trainyard/transformer';
import type { Architecture, ByProjection, LinearName } from '@trainyard/transformer';
import { headTensor } from '../graphs/decoder-parts.ts';
import { formatOf, packedBytes, packRows } from './pack-rows.ts';
import type { PackedMatrix, PackedPart } from './packed-matrix.ts';
import { BLOCK_VALUES, GROUP_ROWS, type KernelLimits, type WeightFormat } from './weight-formats.ts';

type WeightFile = Pick<GgufFile, 'tensors' | 'readRaw'>;
type TensorTable = Pick<GgufFile, 'tensors'>;

interface Source {
  readonly tensor: string;
  readonly numRows: number;
  readonly rowAt: (place: number) => number;
}

interface MatrixSources {
  readonly sources: readonly Source[];
  readonly columns: number;
}

/** Matrices of a model in the kernels' layout, as small as the file has them. Those of experts are none of them. */
export class PackedWeights {
  readonly layers: readonly ByProjection<PackedMatrix>[];
  /** [V, H] */
  readonly head: PackedMatrix;

  /**
   * @param take memory for weights, which must last as long as they
   * @throws {Error} if {@link PackedWeights.bytesOf} is 0
   */
  constructor(
    file: WeightFile,
    architecture: Architecture,
    take: (sizeBytes: number) => Uint8Array<SharedArrayBuffer>,
  ) {
    const matrices = sourcesOf(file, architecture);
    const names = matrices.flatMap(({ sources }) => sources.map(({ tensor }) => tensor));
    const raw = new Uint8Array(Math.max(...names.map((name) => file.tensors.get(name)!.sizeBytes)));
    let last: { readonly tensor: string; readonly bytes: Uint8Array } | null = null;
    // Gate and up can be rows of one tensor.
    const bytesOf = (tensor: string): Uint8Array => {
      if (last?.tensor !== tensor) last = { tensor, bytes: file.readRaw(tensor, raw) };
      return last.bytes;
    };
    const all = matrices.map(({ sources, columns }): PackedMatrix => {
      const parts = partsOf(file, sources);
      const packed: PackedPart[] = [];
      let firstRow = 0;
      for (const { format, numRows, sources: own } of parts) {
        const bytes = take(packedBytes(format, numRows, columns));
        let to = 0;
        for (const { tensor, numRows: count, rowAt } of own) {
          const size = packedBytes(format, count, columns);
          const rows = { numColumns: columns, order: Uint32Array.from({ length: count }, (_, place) => rowAt(place)) };
          packRows(file.tensors.get(tensor)!.type, bytesOf(tensor), rows, bytes.subarray(to, to + size));
          to += size;
        }
        packed.push({ format, bytes, firstRow, numRows });
        firstRow += numRows;
      }
      return { out: firstRow, in: columns, parts: packed };
    });
    let next = 0;
    this.layers = Array.from({ length: architecture.numLayers }, (_, layer) =>
      byProjection(projectionsIn(architecture, layer), () => all[next++]!),
    );
    this.head = all.at(-1)!;
  }

  /** Bytes of all parts, each at a multiple of 64; 0 if the kernels do not compute all matrices of a model. */
  static bytesOf(file: TensorTable, architecture: Architecture, { formats, rowStep }: KernelLimits): number {
    let sizeBytes = 0;
    for (const { sources, columns } of sourcesOf(file, architecture)) {
      for (const { tensor, numRows } of sources) {
        const format = formatOf(file.tensors.get(tensor)?.type ?? '');
        if (format === null || !formats.includes(format)) return 0;
        if (numRows % rowStep !== 0 || columns % BLOCK_VALUES !== 0) return 0;
        sizeBytes += 64 + packedBytes(format, numRows, columns);
      }
    }
    return sizeBytes;
  }

  static tensorNames(file: TensorTable, architecture: Architecture): ReadonlySet<string> {
    return new Set(sourcesOf(file, architecture).flatMap(({ sources }) => sources.map(({ tensor }) => tensor)));
  }
}

/** Consecutive tensors of one format. */
function partsOf(
  { tensors }: TensorTable,
  sources: readonly Source[],
): { readonly format: WeightFormat; readonly numRows: number; readonly sources: readonly Source[] }[] {
  const parts: { format: WeightFormat; numRows: number; sources: Source[] }[] = [];
  for (const source of sources) {
    const format = formatOf(tensors.get(source.tensor)!.type)!;
    const last = parts.at(-1);
    // A group has rows of one tensor.
    if (last?.format === format && last.numRows % GROUP_ROWS === 0) {
      last.numRows += source.numRows;
      last.sources.push(source);
    } else parts.push({ format, numRows: source.numRows, sources: [source] });
  }
  return parts;
}

/** Matrices of all layers, in the order of `projectionsIn`, then the head's. */
function sourcesOf(file: TensorTable, architecture: Architecture): MatrixSources[] {
  const { hiddenSize, vocabSize, numLayers } = architecture;
  const orders = new Map(ALL_LINEAR_NAMES.map((linear) => [linear, rowOrder(architecture, linear)]));
  const ofLayer = (layer: number) =>
    projectionsIn(architecture, layer).map((projection): MatrixSources => ({
      columns: projectionDims(architecture, projection).in,
      sources: projectionParts(architecture, projection).map(({ linear, firstRow, numRows }) => {
        const order = orders.get(linear)!;
        const tensor = `blk.${layer}.${ggufLinear(architecture, layer, linear)}.weight`;
        return { tensor, numRows, rowAt: (place) => firstRow + order(place) };
      }),
    }));
  const head: Source = { tensor: headTensor(file), numRows: vocabSize, rowAt: (place) => place };
  return [
    ...Array.from({ length: numLayers }, (_, layer) => ofLayer(layer)).flat(),
    { sources: [head], columns: hiddenSize },
  ];
}

function rowOrder(architecture: Architecture, linear: LinearName): (place: number) => number {
  const { hasInterleavedHeads, numHeads, numKvHeads } = architecture;
  if (!hasInterleavedHeads || (linear !== 'q' && linear !== 'k')) return (place) => place;
  const rows = Float32Array.from({ length: linearDims(architecture, linear).out }, (_, row) => row);
  const order = toHalves(rows, linear === 'q' ? numHeads : numKvHeads, 1);
  return (place) => order[place]!;
}
