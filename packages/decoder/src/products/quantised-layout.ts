import { BLOCK_VALUES, GROUP_ROWS, groupBlockBytes } from './quantised-code.ts';
import type { WeightFormat } from './quantised-code.ts';

interface BlockType {
  readonly format: WeightFormat;
  readonly blockBytes: number;
  readonly valuesAt: number;
  /** Bytes to the 16-bit offset; null for q4_0, whose offset is -8 times the scale. */
  readonly offsetAt: number | null;
}

const BLOCK_TYPES: Readonly<Record<string, BlockType>> = {
  q4_0: { format: 'affine4', blockBytes: 18, valuesAt: 2, offsetAt: null },
  q4_1: { format: 'affine4', blockBytes: 20, valuesAt: 4, offsetAt: 2 },
  q8_0: { format: 'scaled8', blockBytes: 34, valuesAt: 2, offsetAt: null },
};

/** All 16-bit floats by their bits: a lookup takes a tenth of a conversion. */
const HALVES = Float32Array.from(new Float16Array(Uint16Array.from({ length: 65_536 }, (_, bits) => bits).buffer));

/** Null if the kernels have no layout for the type. */
export const formatOf = (type: string): WeightFormat | null => BLOCK_TYPES[type]?.format ?? null;

export const matrixBytes = (format: WeightFormat, numRows: number, numColumns: number): number =>
  (numRows / GROUP_ROWS) * (numColumns / BLOCK_VALUES) * groupBlockBytes(format);

export interface RowOrder {
  readonly numRows: number;
  readonly numColumns: number;
  /** Row of the tensor for a place. */
  readonly rowAt: (place: number) => number;
}

/** Blocks in file order, and the byte in them at which each row of a group starts. */
interface GroupRows {
  readonly raw: Uint8Array;
  readonly starts: Int32Array; // [GROUP_ROWS]
}

/**
 * Writes rows of a quantised tensor in the kernels' layout.
 *
 * @param raw blocks in file order, row by row
 * @param into {@link matrixBytes} bytes, at a multiple of 4
 */
export function layOut(
  type: string,
  raw: Uint8Array,
  { numRows, numColumns, rowAt }: RowOrder,
  into: Uint8Array,
): void {
  const { format, blockBytes, valuesAt, offsetAt } = BLOCK_TYPES[type]!;
  const halfAt = (at: number): number => HALVES[raw[at]! | (raw[at + 1]! << 8)]!;
  const floats = new Float32Array(into.buffer, into.byteOffset, into.byteLength / 4);
  const words = new Uint32Array(floats.buffer, floats.byteOffset, floats.length);
  const rowBytes = (numColumns / BLOCK_VALUES) * blockBytes;
  const targetWords = groupBlockBytes(format) / 4;
  const starts = new Int32Array(GROUP_ROWS);
  const rows = { raw, starts };
  for (let group = 0, to = 0; group < numRows / GROUP_ROWS; group++) {
    for (let row = 0; row < GROUP_ROWS; row++) starts[row] = rowAt(GROUP_ROWS * group + row) * rowBytes;
    for (let from = 0; from < rowBytes; from += blockBytes, to += targetWords) {
      for (let row = 0; row < GROUP_ROWS; row++) {
        const at = starts[row]! + from;
        const scale = halfAt(at);
        floats[to + row] = scale;
        if (format === 'affine4')
          floats[to + GROUP_ROWS + row] = offsetAt === null ? -8 * scale : halfAt(at + offsetAt);
      }
      if (format === 'affine4') layOutFours(rows, from + valuesAt, words, to + 2 * GROUP_ROWS);
      else layOutEights(rows, from + valuesAt, words, to + GROUP_ROWS);
    }
  }
}

/**
 * Lays out 4-bit values, two bytes of four rows at a time. Byte i of ggml's block holds values i and i + 16;
 * here values i and i + 2 of four.
 *
 * @param from bytes after each row's start
 * @param to in words
 */
function layOutFours({ raw, starts }: GroupRows, from: number, words: Uint32Array, to: number): void {
  for (let vector = 0; vector < 4; vector++) {
    for (let quad = 0; quad < GROUP_ROWS / 4; quad++) {
      let [lowEven, lowOdd, highEven, highOdd] = [0, 0, 0, 0];
      for (let row = 0; row < 4; row++) {
        const at = starts[4 * quad + row]! + from + 4 * vector;
        const first = raw[at]! | (raw[at + 1]! << 8);
        const second = raw[at + 2]! | (raw[at + 3]! << 8);
        const low = (first & 0x0f0f) | ((second & 0x0f0f) << 4);
        const high = ((first >> 4) & 0x0f0f) | (second & 0xf0f0);
        const shift = 8 * row;
        lowEven |= (low & 0xff) << shift;
        lowOdd |= (low >> 8) << shift;
        highEven |= (high & 0xff) << shift;
        highOdd |= (high >> 8) << shift;
      }
      const place = to + 4 * vector + quad;
      words[place] = lowEven;
      words[place + 2] = lowOdd;
      words[place + 16] = highEven;
      words[place + 18] = highOdd;
    }
  }
}

/** Lays out 8-bit values, four rows at a time. Parameters as of {@link layOutFours}. */
function layOutEights({ raw, starts }: GroupRows, from: number, words: Uint32Array, to: number): void {
  for (let quad = 0; quad < GROUP_ROWS / 4; quad++) {
    const [a, b, c, d] = [0, 1, 2, 3].map((row) => starts[4 * quad + row]! + from);
    for (let i = 0; i < BLOCK_VALUES; i++)
      words[to + 2 * i + quad] = raw[a! + i]! | (raw[b! + i]! << 8) | (raw[c! + i]! << 16) | (raw[d! + i]! << 24);
  }
}
