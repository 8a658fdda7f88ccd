import { packRowsInC, TENSOR_TYPES_BY_NAME } from '@trainyard/native';
import { groupValues, STORED_BLOCKS, type StoredPart } from './stored-blocks.ts';
import {
  BLOCK_VALUES,
  GROUP_BLOCK_BYTES,
  GROUP_ROWS,
  PLAIN_FORMATS,
  type PlainFormat,
  type WeightFormat,
} from './weight-formats.ts';

const isPlain = (type: string): type is PlainFormat => (PLAIN_FORMATS as readonly string[]).includes(type);

/** Null if the kernels have no format for the type. */
export const formatOf = (type: string): WeightFormat | null =>
  isPlain(type) ? type : (STORED_BLOCKS[type]?.format ?? null);

/** Bytes of packed rows; the last group is filled. */
export const packedBytes = (format: WeightFormat, numRows: number, numColumns: number): number =>
  Math.ceil(numRows / GROUP_ROWS) * (numColumns / BLOCK_VALUES) * GROUP_BLOCK_BYTES[format];

export interface RowOrder {
  readonly numColumns: number;
  /** Row of the tensor for each packed one. */
  readonly order: Uint32Array;
}

/**
 * Writes rows of a tensor in the kernels' layout, in C if there is a build for this platform.
 *
 * @param raw as stored, row by row, at a multiple of 4 bytes
 * @param into {@link packedBytes} bytes, at a multiple of 4
 */
export function packRows(type: string, raw: Uint8Array, rows: RowOrder, into: Uint8Array): void {
  if (!packRowsInC(TENSOR_TYPES_BY_NAME.get(type)!.id, raw, inGroups(rows), into))
    packRowsInJavaScript(type, raw, rows, into);
}

/** The same in JavaScript. */
export function packRowsInJavaScript(type: string, raw: Uint8Array, rows: RowOrder, into: Uint8Array): void {
  if (isPlain(type)) packPlain(type, raw, inGroups(rows), into);
  else packBlocks(type, raw, inGroups(rows), into);
}

/** The last group is filled with copies of its last row, whose products are not used. */
function inGroups({ numColumns, order }: RowOrder): RowOrder {
  const numRows = GROUP_ROWS * Math.ceil(order.length / GROUP_ROWS);
  if (numRows === order.length) return { numColumns, order };
  return { numColumns, order: Uint32Array.from({ length: numRows }, (_, i) => order[i] ?? order.at(-1)!) };
}

function packPlain(type: PlainFormat, raw: Uint8Array, { numColumns, order }: RowOrder, into: Uint8Array): void {
  const [from, to] = [valuesOf(type, raw), valuesOf(type, into)];
  for (const [place, row] of order.entries()) {
    const first = row * numColumns;
    let at = Math.floor(place / GROUP_ROWS) * GROUP_ROWS * numColumns + (place % GROUP_ROWS);
    for (let i = 0; i < numColumns; i++, at += GROUP_ROWS) to[at] = from[first + i]!;
  }
}

const valuesOf = (type: PlainFormat, { buffer, byteOffset, length }: Uint8Array): Uint16Array | Uint32Array =>
  type === 'f32' ? new Uint32Array(buffer, byteOffset, length / 4) : new Uint16Array(buffer, byteOffset, length / 2);

function packBlocks(type: string, raw: Uint8Array, { numColumns, order }: RowOrder, into: Uint8Array): void {
  const { format, read } = STORED_BLOCKS[type]!;
  const { blockLength, blockBytes } = TENSOR_TYPES_BY_NAME.get(type)!;
  const floats = new Float32Array(into.buffer, into.byteOffset, into.byteLength / 4);
  const words = new Uint32Array(floats.buffer, floats.byteOffset, floats.length);
  const rowBytes = (numColumns / blockLength) * blockBytes;
  const partsPerBlock = blockLength / BLOCK_VALUES;
  const group = groupValues();
  const from: StoredPart = { raw, at: 0, part: 0 };
  const hasOthers = format !== 'scaled8';
  for (let first = 0, to = 0; first < order.length; first += GROUP_ROWS) {
    const starts = Array.from({ length: GROUP_ROWS }, (_, row) => order[first + row]! * rowBytes);
    for (let block = 0; block < numColumns / BLOCK_VALUES; block++, to += GROUP_BLOCK_BYTES[format] / 4) {
      const at = Math.floor(block / partsPerBlock) * blockBytes;
      from.part = block % partsPerBlock;
      for (let row = 0; row < GROUP_ROWS; row++) {
        from.at = starts[row]! + at;
        read(from, row, group);
      }
      floats.set(group.scales, to);
      if (hasOthers) floats.set(group.others, to + GROUP_ROWS);
      const values = to + (hasOthers ? 2 : 1) * GROUP_ROWS;
      if (format === 'affine4') packFours(group.values, words, values);
      else packEights(group.values, words, values);
    }
  }
}

/** @param values [GROUP_ROWS, BLOCK_VALUES] of four bits @param to in words */
function packFours(values: Int8Array, words: Uint32Array, to: number): void {
  for (let vector = 0; vector < BLOCK_VALUES / 4; vector++) {
    for (let quad = 0; quad < GROUP_ROWS / 4; quad++) {
      let [even, odd] = [0, 0];
      for (let row = 0; row < 4; row++) {
        const at = BLOCK_VALUES * (4 * quad + row) + 4 * vector;
        even |= (values[at]! | (values[at + 2]! << 4)) << (8 * row);
        odd |= (values[at + 1]! | (values[at + 3]! << 4)) << (8 * row);
      }
      words[to + 4 * vector + quad] = even;
      words[to + 4 * vector + 2 + quad] = odd;
    }
  }
}

/** Parameters as of {@link packFours}; eight bits. */
function packEights(values: Int8Array, words: Uint32Array, to: number): void {
  for (let i = 0; i < BLOCK_VALUES; i++) {
    for (let quad = 0; quad < GROUP_ROWS / 4; quad++) {
      const byte = (row: number): number => values[BLOCK_VALUES * (4 * quad + row) + i]! & 255;
      words[to + 2 * i + quad] = byte(0) | (byte(1) << 8) | (byte(2) << 16) | (byte(3) << 24);
    }
  }
}
