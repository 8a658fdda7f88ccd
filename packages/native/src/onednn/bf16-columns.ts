import { koffi } from '../binding/koffi.ts';
import type { Bf16Library } from './bf16-library.ts';
import { Bf16Weights } from './bf16-weights.ts';
import type { Bf16Place } from './bf16-weights.ts';
import type { MatrixDims } from './matmul.ts';
import { oneDnnLibrary } from './onednn-library.ts';
import type { Address, OneDnnLibrary } from './onednn-library.ts';

/** Result columns that the library computes together; its layouts can be cut only at multiples. */
const COLUMN_BLOCK = 64;

export interface ColumnPlace {
  readonly firstColumn: number;
  readonly place: Bf16Place;
}

interface ColumnRange {
  readonly firstColumn: number;
  readonly dims: MatrixDims;
  readonly layout: Address;
  readonly offset: bigint;
}

/** Cuts weights of one shape into column ranges that are contiguous in the layout of the whole. */
export class Bf16Columns {
  readonly #library: OneDnnLibrary;
  readonly #ranges: readonly ColumnRange[];

  private constructor(library: OneDnnLibrary, ranges: readonly ColumnRange[]) {
    this.#library = library;
    this.#ranges = ranges;
  }

  /**
   * Tries the cut on one matrix: each range, laid out separately, must equal the bytes in the whole.
   *
   * @param weights of the shape, laid out from `data` [out, in]
   * @param numRanges maximum
   * @returns null if the ranges are not contiguous
   */
  static of(library: Bf16Library, weights: Bf16Weights, data: Float32Array, numRanges: number): Bf16Columns | null {
    const bound = oneDnnLibrary(library.path);
    const { dims, place } = weights;
    const whole = bytesAt(place.data, sizeOf(bound, place.layout));
    const ranges: ColumnRange[] = [];
    let offset = 0;
    for (const { start, end } of columnRanges(dims.out, numRanges)) {
      const partDims = { out: end - start, in: dims.in };
      const part = new Bf16Weights(library, data.subarray(start * dims.in, end * dims.in), partDims);
      const size = sizeOf(bound, part.layout);
      const isThere =
        offset + size <= whole.length &&
        Buffer.compare(bytesAt(part.place.data, size), whole.subarray(offset, offset + size)) === 0;
      const layout = bound.made((out) => bound.descriptionClone(out, part.layout));
      part.close();
      ranges.push({ firstColumn: start, dims: partDims, layout, offset: BigInt(offset) });
      offset += size;
      if (isThere) continue;
      new Bf16Columns(bound, ranges).close();
      return null;
    }
    return new Bf16Columns(bound, ranges);
  }

  /** Ranges in other weights of the shape. Valid while both are open. */
  placesIn(weights: Bf16Weights): readonly ColumnPlace[] {
    const { data } = weights.place;
    return this.#ranges.map(({ firstColumn, dims, layout, offset }) => {
      return { firstColumn, place: { dims, layout, data: data + offset } };
    });
  }

  close(): void {
    for (const { layout } of this.#ranges) this.#library.descriptionDestroy(layout);
  }
}

/** Cuts into `most` ranges or fewer, of whole blocks except the last. */
function columnRanges(numColumns: number, most: number): { start: number; end: number }[] {
  const numBlocks = Math.ceil(numColumns / COLUMN_BLOCK);
  const numRanges = Math.min(most, numBlocks);
  const edge = (i: number) => Math.min(numColumns, COLUMN_BLOCK * Math.floor((i * numBlocks) / numRanges));
  return Array.from({ length: numRanges }, (_, i) => ({ start: edge(i), end: edge(i + 1) }));
}

const sizeOf = (library: OneDnnLibrary, layout: Address): number => Number(library.descriptionSize(layout));

const bytesAt = (data: Address, size: number): Uint8Array => new Uint8Array(koffi().view(data, size));
