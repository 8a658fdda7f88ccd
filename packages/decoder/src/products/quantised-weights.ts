import type { GgufFile } from '@trainyard/native';
import {
  GGUF_LINEARS,
  linearDims,
  PROJECTION_NAMES,
  projectionDims,
  PROJECTIONS,
  toHalves,
} from '@trainyard/transformer';
import type { Architecture, LinearName, ProjectionName } from '@trainyard/transformer';
import { MAX_MEMORY_BYTES, sharedMemory } from '../wasm/web-assembly.ts';
import type { SharedWasmMemory } from '../wasm/web-assembly.ts';
import { formatOf, layOut, matrixBytes } from './quantised-layout.ts';
import type { WeightFormat } from './quantised-code.ts';
import type { QuantisedMatrix } from './quantised-matrix.ts';
import { QuantisedProducts } from './quantised-products.ts';

type WeightFile = Pick<GgufFile, 'tensors' | 'readRaw'>;

interface Source {
  readonly tensor: string;
  readonly numRows: number;
  /** Which row of the tensor comes at a place. */
  readonly rowAt: (place: number) => number;
}

/** The weights of a model as they are quantised, in memory that all threads see, with room for activations behind them. */
export class QuantisedWeights {
  readonly memory: SharedWasmMemory;
  readonly layers: readonly Readonly<Record<ProjectionName, QuantisedMatrix>>[];
  /** [V, H] */
  readonly head: QuantisedMatrix;
  #end: number;

  /**
   * @param activations float32 that {@link take} may give in all
   * @returns null when the kernels do not compute all of the model's products
   */
  static read(file: WeightFile, architecture: Architecture, activations: number): QuantisedWeights | null {
    const weightBytes = QuantisedWeights.bytesOf(file, architecture);
    const sizeBytes = weightBytes + 4 * activations;
    if (weightBytes === 0 || sizeBytes > MAX_MEMORY_BYTES) return null;
    return new QuantisedWeights(file, architecture, sourcesOf(file, architecture), sizeBytes);
  }

  /** Bytes that {@link read} lays out of a file; 0 when the kernels do not compute all of its products. */
  static bytesOf(file: Pick<GgufFile, 'tensors'>, architecture: Architecture): number {
    let sizeBytes = 0;
    for (const { sources, columns } of sourcesOf(file, architecture)) {
      for (const { tensor, numRows } of sources) {
        const format = formatOf(file.tensors.get(tensor)?.type ?? '');
        if (format === null || !QuantisedProducts.fits({ out: numRows, in: columns })) return 0;
        sizeBytes += matrixBytes(format, numRows, columns);
      }
    }
    return sizeBytes;
  }

  private constructor(
    file: WeightFile,
    { numLayers }: Architecture,
    matrices: readonly MatrixSources[],
    sizeBytes: number,
  ) {
    this.memory = sharedMemory(sizeBytes);
    this.#end = 0;
    const all = matrices.map(({ sources, columns }) => this.#layOut(file, sources, columns));
    this.layers = Array.from({ length: numLayers }, (_, layer) => {
      const first = layer * PROJECTION_NAMES.length;
      const named = PROJECTION_NAMES.map((projection, i) => [projection, all[first + i]!]);
      return Object.fromEntries(named) as Record<ProjectionName, QuantisedMatrix>;
    });
    this.head = all.at(-1)!;
  }

  /** Bytes of the memory. */
  get sizeBytes(): number {
    return this.memory.buffer.byteLength;
  }

  /** Room for activations. */
  take(length: number): Float32Array {
    const floats = new Float32Array(this.memory.buffer, this.#end, length);
    this.#end += 4 * length;
    return floats;
  }

  #layOut(file: WeightFile, sources: readonly Source[], columns: number): QuantisedMatrix {
    const parts: { format: WeightFormat; address: number; firstRow: number; numRows: number }[] = [];
    let firstRow = 0;
    for (const { tensor, numRows, rowAt } of sources) {
      const type = file.tensors.get(tensor)!.type;
      const format = formatOf(type)!;
      const into = new Uint8Array(this.memory.buffer, this.#end, matrixBytes(format, numRows, columns));
      layOut(type, file.readRaw(tensor), { numRows, numColumns: columns }, rowAt, into);
      const last = parts.at(-1);
      if (last?.format === format) last.numRows += numRows;
      else parts.push({ format, address: this.#end, firstRow, numRows });
      this.#end += into.length;
      firstRow += numRows;
    }
    return { out: firstRow, in: columns, parts };
  }
}

interface MatrixSources {
  readonly sources: readonly Source[];
  readonly columns: number;
}

/** The matrices of all layers, in order of {@link PROJECTION_NAMES}, and then the head's. */
function sourcesOf(file: Pick<GgufFile, 'tensors'>, architecture: Architecture): MatrixSources[] {
  const { hiddenSize, vocabSize, numLayers } = architecture;
  const ofLayer = (layer: number) =>
    PROJECTION_NAMES.map((projection): MatrixSources => ({
      columns: projectionDims(architecture, projection).in,
      sources: PROJECTIONS[projection].map((linear) => {
        const numRows = linearDims(architecture, linear).out;
        const tensor = `blk.${layer}.${GGUF_LINEARS[linear]}.weight`;
        return { tensor, numRows, rowAt: rowOrder(architecture, linear, numRows) };
      }),
    }));
  const tensor = file.tensors.has('output.weight') ? 'output.weight' : 'token_embd.weight';
  const head: Source = { tensor, numRows: vocabSize, rowAt: (place) => place };
  return [
    ...Array.from({ length: numLayers }, (_, layer) => ofLayer(layer)).flat(),
    { sources: [head], columns: hiddenSize },
  ];
}

/** The graphs have q and k in half-rotation order. */
function rowOrder(architecture: Architecture, linear: LinearName, numRows: number): (place: number) => number {
  const { hasInterleavedHeads, numHeads, numKvHeads } = architecture;
  if (!hasInterleavedHeads || (linear !== 'q' && linear !== 'k')) return (place) => place;
  const rows = Float32Array.from({ length: numRows }, (_, row) => row);
  const order = toHalves(rows, linear === 'q' ? numHeads : numKvHeads, 1);
  return (place) => order[place]!;
}
