import { BLOCK_VALUES, GROUP_ROWS, groupBlockBytes } from './quantised-code.ts';
import type { WeightFormat } from './quantised-code.ts';

/** How a tensor type of ggml is laid out for the kernels: bytes of its block, and where in it things are. */
interface BlockType {
  readonly format: WeightFormat;
  readonly blockBytes: number;
  /** Bytes from the block's start to its values. */
  readonly valuesAt: number;
  /** Bytes to the 16-bit offset; null: q4_0, whose offset is -8 times the scale. */
  readonly offsetAt: number | null;
}

const BLOCK_TYPES: Readonly<Record<string, BlockType>> = {
  q4_0: { format: 'affine4', blockBytes: 18, valuesAt: 2, offsetAt: null },
  q4_1: { format: 'affine4', blockBytes: 20, valuesAt: 4, offsetAt: 2 },
  q8_0: { format: 'scaled8', blockBytes: 34, valuesAt: 2, offsetAt: null },
};

/** Every number of 16 bits, by its bits: looking it up takes a tenth of reading it. */
const HALVES = Float32Array.from(new Float16Array(Uint16Array.from({ length: 65_536 }, (_, bits) => bits).buffer));

/** The layout of tensors of a type; null where the kernels have none. */
export const formatOf = (type: string): WeightFormat | null => BLOCK_TYPES[type]?.format ?? null;

/** Bytes of a matrix in the kernels' layout. */
export const matrixBytes = (format: WeightFormat, numRows: number, numColumns: number): number =>
  (numRows / GROUP_ROWS) * (numColumns / BLOCK_VALUES) * groupBlockBytes(format);

/**
 * Writes rows of a quantised tensor in the kernels' layout.
 *
 * @param raw blocks as they lie in the file, row by row
 * @param rowAt which row of the tensor comes at a place
 * @param into as many bytes as {@link matrixBytes} says, at a multiple of 4
 */
export function layOut(
  type: string,
  raw: Uint8Array,
  { numRows, numColumns }: { readonly numRows: number; readonly numColumns: number },
  rowAt: (place: number) => number,
  into: Uint8Array,
): void {
  const { format, blockBytes, valuesAt, offsetAt } = BLOCK_TYPES[type]!;
  const halfAt = (at: number): number => HALVES[raw[at]! | (raw[at + 1]! << 8)]!;
  const floats = new Float32Array(into.buffer, into.byteOffset, into.byteLength / 4);
  const blocksPerRow = numColumns / BLOCK_VALUES;
  const targetBytes = groupBlockBytes(format);
  for (let place = 0; place < numRows; place++) {
    const row = place % GROUP_ROWS;
    const group = (place - row) / GROUP_ROWS;
    const first = rowAt(place) * blocksPerRow;
    for (let block = 0; block < blocksPerRow; block++) {
      const from = (first + block) * blockBytes;
      const to = (group * blocksPerRow + block) * targetBytes;
      const scale = halfAt(from);
      floats[to / 4 + row] = scale;
      if (format === 'affine4') {
        floats[to / 4 + GROUP_ROWS + row] = offsetAt === null ? -8 * scale : halfAt(from + offsetAt);
        writeFours(raw, from + valuesAt, into, to + 64 + row);
      } else for (let i = 0; i < BLOCK_VALUES; i++) into[to + 32 + GROUP_ROWS * i + row] = raw[from + valuesAt + i]!;
    }
  }
}

/** Byte i of ggml's block holds values i and i + 16; ours hold values i and i + 2 of four. */
function writeFours(raw: Uint8Array, from: number, into: Uint8Array, to: number): void {
  for (let vector = 0; vector < 4; vector++) {
    const at = from + 4 * vector;
    const [a, b, c, d] = [raw[at]!, raw[at + 1]!, raw[at + 2]!, raw[at + 3]!];
    const low = to + 16 * vector;
    into[low] = (a & 15) | ((c & 15) << 4);
    into[low + GROUP_ROWS] = (b & 15) | ((d & 15) << 4);
    const high = low + 64;
    into[high] = (a >> 4) | (c & 0xf0);
    into[high + GROUP_ROWS] = (b >> 4) | (d & 0xf0);
  }
}
