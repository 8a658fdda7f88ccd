import { GgufFile } from '@trainyard/native';
import type { OnnxTensor } from '@trainyard/native';
import { adapterName, LINEAR_NAMES, linearDims, readAdapterFile, STACK } from '@trainyard/transformer';
import type { AdapterWeights, Architecture, LinearName } from '@trainyard/transformer';
import type { DecoderBatch } from './decoder-batch.ts';

/** An adapter's part of one linear layer, as the graphs read it. */
interface LinearFactors {
  readonly rank: number;
  /** [rank, in] */
  readonly a: Float32Array;
  /** [rank, out] */
  readonly b: Float32Array;
}

/** An adapter in memory, laid out for {@link AdapterStack}. */
export class DecoderAdapter {
  /** By layer. */
  readonly layers: readonly Readonly<Partial<Record<LinearName, LinearFactors>>>[];
  readonly sizeBytes: number;

  /** @throws {NativeError} or {UnsupportedModelError}: it cannot be read, or is none of this model */
  static load(path: string, architecture: Architecture): DecoderAdapter {
    using file = GgufFile.open(path);
    return new DecoderAdapter(readAdapterFile(file, architecture));
  }

  constructor(weights: AdapterWeights) {
    this.layers = weights.map((layer) =>
      Object.fromEntries(
        Object.entries(layer).map(([linear, { rank, a, b }]) => [linear, { rank, a, b: transposed(b, rank) }]),
      ),
    );
    const factors = this.layers.flatMap((layer) => Object.values(layer));
    this.sizeBytes = factors.reduce((sum, { a, b }) => sum + a.byteLength + b.byteLength, 0);
  }

  close(): void {}
}

/** Several adapters side by side, each of which multiplies the rows of a batch that use it. */
export class AdapterStack {
  /** Null, beside others, is one of zeros: rows without an adapter have slots of their own, so that no other row's infinities reach them. */
  readonly adapters: readonly (DecoderAdapter | null)[];
  readonly #layers: readonly Readonly<Record<LinearName, Readonly<Record<string, OnnxTensor>>>>[];

  constructor(adapters: readonly (DecoderAdapter | null)[], architecture: Architecture) {
    this.adapters = adapters;
    this.#layers = Array.from({ length: architecture.numLayers }, (_, layer) => {
      const linears = LINEAR_NAMES.map((linear) => [linear, stackLinear(adapters, architecture, layer, linear)]);
      return Object.fromEntries(linears) as Record<LinearName, Record<string, OnnxTensor>>;
    });
  }

  get isEmpty(): boolean {
    return this.adapters.length === 0;
  }

  /** Feeds that give each row of a batch a slot, in every layer. @param numRows of the graphs: what those behind the batch's are computed from is of no interest */
  placesOf({ adapters, adapterIndices, length }: DecoderBatch, numRows: number): Record<string, OnnxTensor> {
    const slots = new BigInt64Array(numRows);
    // Sums of nothing: every row reads the same zeros.
    if (this.isEmpty) return placesOf(BigInt64Array.of(0n), 1, slots);
    const segmentOf = adapters.map((adapter) => this.adapters.indexOf(adapter as DecoderAdapter | null));
    const counts = new Int32Array(this.adapters.length);
    for (let row = 0; row < length; row++) counts[segmentOf[adapterIndices[row]!]!]!++;
    // Never a product of one row, which is summed in an order of its own.
    const size = Math.max(2, ...counts);
    const rows = new BigInt64Array(counts.length * size);
    counts.fill(0);
    for (let row = 0; row < length; row++) {
      const segment = segmentOf[adapterIndices[row]!]!;
      const slot = segment * size + counts[segment]!++;
      rows[slot] = BigInt(row);
      slots[row] = BigInt(slot);
    }
    return placesOf(rows, size, slots);
  }

  /** Feeds of the graphs that compute these linear layers of a layer. */
  addFeeds(into: Record<string, OnnxTensor>, layer: number, linears: readonly LinearName[]): void {
    for (const linear of linears) Object.assign(into, this.#layers[layer]![linear]);
  }
}

/** @param size slots of a segment */
function placesOf(rows: BigInt64Array, size: number, slots: BigInt64Array): Record<string, OnnxTensor> {
  return {
    [STACK.rows]: { data: rows, dims: [rows.length / size, size] },
    [STACK.slots]: { data: slots, dims: [slots.length] },
  };
}

function stackLinear(
  adapters: readonly (DecoderAdapter | null)[],
  architecture: Architecture,
  layer: number,
  linear: LinearName,
): Record<string, OnnxTensor> {
  const dims = linearDims(architecture, linear);
  const parts = adapters.map((adapter) => adapter?.layers[layer]![linear]);
  // Where one has a lower rank than another, the rest is 0.
  const rank = Math.max(0, ...parts.map((part) => part?.rank ?? 0));
  const half = (name: 'a' | 'b', width: number): OnnxTensor => {
    const arrays = parts.map((part) => part?.[name]);
    return { data: joined(arrays, rank * width), dims: [Math.max(1, parts.length), rank, width] };
  };
  return { [adapterName(linear, 'a')]: half('a', dims.in), [adapterName(linear, 'b')]: half('b', dims.out) };
}

/** One behind the other, each with room for so many elements. */
function joined(parts: readonly (Float32Array | undefined)[], length: number): Float32Array {
  const [only] = parts;
  if (parts.length === 1 && only !== undefined) return only;
  const result = new Float32Array(parts.length * length);
  for (const [i, part] of parts.entries()) if (part !== undefined) result.set(part, i * length);
  return result;
}

/** [rows, columns] → [columns, rows] */
function transposed(matrix: Float32Array, columns: number): Float32Array {
  const rows = matrix.length / columns;
  const result = new Float32Array(matrix.length);
  for (let row = 0; row < rows; row++)
    for (let column = 0; column < columns; column++) result[column * rows + row] = matrix[row * columns + column]!;
  return result;
}
