import { BLOCK_VALUES, GROUP_ROWS, type PlainFormat, type WeightFormat } from './weight-formats.ts';

/** 32 values of each of eight rows, as whole numbers and the numbers that turn them into weights. */
export interface GroupValues {
  /** [GROUP_ROWS, BLOCK_VALUES] */
  readonly values: Int8Array;
  /** [GROUP_ROWS] each; `other` is an offset, or the scale of the last sixteen values */
  readonly scales: Float32Array;
  readonly others: Float32Array;
}

/** 32 values of a row as stored. */
export interface StoredPart {
  readonly raw: Uint8Array;
  /** Byte at which their block starts. */
  at: number;
  /** Place in the block, in 32 values. */
  part: number;
}

/** A quantised type of ggml. */
export interface StoredBlocks {
  readonly format: Exclude<WeightFormat, PlainFormat>;
  readonly read: (from: StoredPart, row: number, into: GroupValues) => void;
}

/** All 16-bit floats by their bits: a lookup takes a tenth of a conversion. */
const HALVES = Float32Array.from(new Float16Array(Uint16Array.from({ length: 65_536 }, (_, bits) => bits).buffer));

const halfAt = (raw: Uint8Array, at: number): number => HALVES[raw[at]! | (raw[at + 1]! << 8)]!;

/** Block types of ggml by name, as `dequantize_row_TYPE` of ggml-quants.c expands them. */
export const STORED_BLOCKS: Readonly<Record<string, StoredBlocks>> = {
  q4_0: {
    format: 'affine4',
    read({ raw, at }, row, into) {
      const scale = halfAt(raw, at);
      into.scales[row] = scale;
      into.others[row] = -8 * scale;
      readFours(raw, at + 2, into.values, row);
    },
  },
  q4_1: {
    format: 'affine4',
    read({ raw, at }, row, into) {
      into.scales[row] = halfAt(raw, at);
      into.others[row] = halfAt(raw, at + 2);
      readFours(raw, at + 4, into.values, row);
    },
  },
  q5_0: {
    format: 'scaled8',
    read({ raw, at }, row, into) {
      into.scales[row] = halfAt(raw, at);
      readFives(raw, at + 2, into.values, { row, offset: -16 });
    },
  },
  q5_1: {
    format: 'affine8',
    read({ raw, at }, row, into) {
      into.scales[row] = halfAt(raw, at);
      into.others[row] = halfAt(raw, at + 2);
      readFives(raw, at + 4, into.values, { row, offset: 0 });
    },
  },
  q8_0: {
    format: 'scaled8',
    read({ raw, at }, row, into) {
      into.scales[row] = halfAt(raw, at);
      const to = BLOCK_VALUES * row;
      for (let i = 0; i < BLOCK_VALUES; i++) into.values[to + i] = raw[at + 2 + i]!;
    },
  },
  q4_K: {
    format: 'affine4',
    read(from, row, into) {
      readSuperScale(from, row, into);
      readSuperFours(from, 16, into.values, row);
    },
  },
  q5_K: {
    format: 'affine8',
    read(from, row, into) {
      readSuperScale(from, row, into);
      readSuperFours(from, 48, into.values, row);
      const { raw, at, part } = from;
      const to = BLOCK_VALUES * row;
      for (let i = 0; i < BLOCK_VALUES; i++) into.values[to + i]! |= ((raw[at + 16 + i]! >> part) & 1) << 4;
    },
  },
  q6_K: {
    format: 'halfScaled8',
    read({ raw, at, part }, row, into) {
      const [half, place] = [part >> 2, part & 3];
      const scale = halfAt(raw, at + 208);
      const scaleAt = at + 192 + 2 * part;
      into.scales[row] = scale * ((raw[scaleAt]! << 24) >> 24);
      into.others[row] = scale * ((raw[scaleAt + 1]! << 24) >> 24);
      const low = at + 64 * half + 32 * (place & 1);
      const high = at + 128 + 32 * half;
      const to = BLOCK_VALUES * row;
      for (let i = 0; i < BLOCK_VALUES; i++) {
        const four = (raw[low + i]! >> (4 * (place >> 1))) & 15;
        into.values[to + i] = (four | (((raw[high + i]! >> (2 * place)) & 3) << 4)) - 32;
      }
    },
  },
};

/** Room for a group's block. */
export const groupValues = (): GroupValues => ({
  values: new Int8Array(GROUP_ROWS * BLOCK_VALUES),
  scales: new Float32Array(GROUP_ROWS),
  others: new Float32Array(GROUP_ROWS),
});

/** Byte i holds values i and i + 16. */
function readFours(raw: Uint8Array, at: number, values: Int8Array, row: number): void {
  const to = BLOCK_VALUES * row;
  for (let i = 0; i < 16; i++) {
    values[to + i] = raw[at + i]! & 15;
    values[to + 16 + i] = raw[at + i]! >> 4;
  }
}

/** The same after 32 fifth bits. */
function readFives(
  raw: Uint8Array,
  at: number,
  values: Int8Array,
  { row, offset }: { readonly row: number; readonly offset: number },
): void {
  const to = BLOCK_VALUES * row;
  const fifths = raw[at]! | (raw[at + 1]! << 8) | (raw[at + 2]! << 16) | (raw[at + 3]! << 24);
  readFours(raw, at + 4, values, row);
  for (let i = 0; i < BLOCK_VALUES; i++) values[to + i] = (values[to + i]! | (((fifths >>> i) & 1) << 4)) + offset;
}

/** Four bits of 32 values of a block of 256, which start `after` its start. */
function readSuperFours({ raw, at, part }: StoredPart, after: number, values: Int8Array, row: number): void {
  const from = at + after + 32 * (part >> 1);
  const shift = 4 * (part & 1);
  const to = BLOCK_VALUES * row;
  for (let i = 0; i < BLOCK_VALUES; i++) values[to + i] = (raw[from + i]! >> shift) & 15;
}

/** Scale and offset of 32 values of a block of 256: six bits each, times a scale of the block. */
function readSuperScale({ raw, at, part }: StoredPart, row: number, { scales, others }: GroupValues): void {
  const bits = at + 4;
  const [scale, minimum] =
    part < 4
      ? [raw[bits + part]! & 63, raw[bits + part + 4]! & 63]
      : [
          (raw[bits + part + 4]! & 15) | ((raw[bits + part - 4]! >> 6) << 4),
          (raw[bits + part + 4]! >> 4) | ((raw[bits + part]! >> 6) << 4),
        ];
  scales[row] = halfAt(raw, at) * scale;
  others[row] = -halfAt(raw, at + 2) * minimum;
}
