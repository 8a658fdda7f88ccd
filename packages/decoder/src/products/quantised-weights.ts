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
import type { DecoderMemory } from '../memory/decoder-memory.ts';
import { formatOf, layOut, matrixBytes } from './quantised-layout.ts';
import type { WeightFormat } from './quantised-code.ts';
import type { QuantisedMatrix } from './quantised-matrix.ts';
import { QuantisedProducts } from './quantised-products.ts';

type WeightFile = Pick<GgufFile, 'tensors' | 'readRaw'>;

interface Source {
  readonly tensor: string;
  readonly numRows: number;
  readonly rowAt: (place: number) => number;
}

export class QuantisedWeights {
  readonly layers: readonly ByProjection<QuantisedMatrix>[];
  /** [V, H] */
  readonly head: QuantisedMatrix;

  /** @param memory with {@link bytesOf} bytes of room, which must not be 0 */
  constructor(file: WeightFile, architecture: Architecture, memory: DecoderMemory) {
    const matrices = sourcesOf(file, architecture);
    const names = matrices.flatMap(({ sources }) => sources.map(({ tensor }) => tensor));
    const raw = new Uint8Array(Math.max(...names.map((name) => file.tensors.get(name)!.sizeBytes)));
    let last: { readonly tensor: string; readonly bytes: Uint8Array } | null = null;
    // Gate and up can be rows of one tensor.
    const bytesOf = (tensor: string): Uint8Array => {
      if (last?.tensor !== tensor) last = { tensor, bytes: file.readRaw(tensor, raw) };
      return last.bytes;
    };
    const all = matrices.map((matrix) => layOutAll({ tensors: file.tensors, bytesOf }, matrix, memory));
    let next = 0;
    this.layers = Array.from({ length: architecture.numLayers }, (_, layer) =>
      byProjection(projectionsIn(architecture, layer), () => all[next++]!),
    );
    this.head = all.at(-1)!;
  }

  /** Bytes that they take; 0 if the kernels do not compute all products of a model. */
  static bytesOf(file: Pick<GgufFile, 'tensors'>, architecture: Architecture): number {
    let sizeBytes = 0;
    for (const { sources, columns } of sourcesOf(file, architecture)) {
      // Each matrix starts at a multiple of 64 bytes.
      sizeBytes += 64;
      for (const { tensor, numRows } of sources) {
        const format = formatOf(file.tensors.get(tensor)?.type ?? '');
        if (format === null || !QuantisedProducts.fits({ out: numRows, in: columns })) return 0;
        sizeBytes += matrixBytes(format, numRows, columns);
      }
    }
    return sizeBytes;
  }
}

/** @param file with the stored bytes of a tensor, valid until the next one is read */
function layOutAll(
  file: Pick<GgufFile, 'tensors'> & { readonly bytesOf: (tensor: string) => Uint8Array },
  { sources, columns }: MatrixSources,
  memory: DecoderMemory,
): QuantisedMatrix {
  const formats = sources.map(({ tensor }) => formatOf(file.tensors.get(tensor)!.type)!);
  const sizes = sources.map(({ numRows }, i) => matrixBytes(formats[i]!, numRows, columns));
  const block = memory.take(sizes.reduce((sum, size) => sum + size, 0) / 4);
  const parts: { format: WeightFormat; address: number; firstRow: number; numRows: number }[] = [];
  let address = block.byteOffset;
  let firstRow = 0;
  for (const [i, { tensor, numRows, rowAt }] of sources.entries()) {
    const into = new Uint8Array(memory.shared.buffer, address, sizes[i]!);
    layOut(file.tensors.get(tensor)!.type, file.bytesOf(tensor), { numRows, numColumns: columns, rowAt }, into);
    const last = parts.at(-1);
    if (last?.format === formats[i]) last!.numRows += numRows;
    else parts.push({ format: formats[i]!, address, firstRow, numRows });
    address += sizes[i]!;
    firstRow += numRows;
  }
  return { out: firstRow, in: columns, parts };
}

interface MatrixSources {
  readonly sources: readonly Source[];
  readonly columns: number;
}

/** Matrices of all layers, in the order of `projectionsIn`, then the head's. Those of experts are none of them. */
function sourcesOf(file: Pick<GgufFile, 'tensors'>, architecture: Architecture): MatrixSources[] {
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
  const tensor = file.tensors.has('output.weight') ? 'output.weight' : 'token_embd.weight';
  const head: Source = { tensor, numRows: vocabSize, rowAt: (place) => place };
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
