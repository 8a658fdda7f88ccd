import { orderValueHeads } from '@trainyard/transformer';
import type { SafetensorsDtype } from '../checkpoint/safetensors-reader.ts';
import { ModelFolderError } from './model-folder-error.ts';
import type { ShardTensor } from './shards.ts';
import { type MatrixRows, MXFP4_VALUES, takeRows } from './feed-forward-layouts.ts';
import type { TableTensor } from './tensor-table.ts';

const PIECE_BYTES = 4 << 20;

/** GGUF type of each type of safetensors. */
export const STORED_TYPES = { F32: 'f32', F16: 'f16', BF16: 'bf16' } as const;

/** Type in the GGUF file. */
export function storedType(
  { isSinglePrecision, sources }: TableTensor,
  { entry }: ShardTensor,
): (typeof STORED_TYPES)[SafetensorsDtype] | 'mxfp4' {
  if (sources.scales !== null) return 'mxfp4';
  return isSinglePrecision ? 'f32' : STORED_TYPES[numberType(entry)];
}

/** Type of a tensor that has numbers. @throws {ModelFolderError} */
export function numberType({ name, dtype }: ShardTensor['entry']): SafetensorsDtype {
  if (dtype !== 'U8') return dtype;
  throw new ModelFolderError(`the tensor ${name} is U8, and must be F32, F16 or BF16`);
}

/**
 * Bytes of a source of a tensor for the GGUF file: those of the folder, with rows of q and k in interleaved order where the
 * table says so. At most one head, the matrices of one expert, a matrix with
 * value heads, or some megabytes are in memory.
 *
 * @throws {ModelFolderError} for NaN and infinite values, with the tensor's name
 */
export function* tensorBytes(tensor: TableTensor, { entry, reader }: ShardTensor): Generator<Uint8Array> {
  const { interleavedHeads: heads } = tensor;
  const { name: source, dims } = entry;
  const dtype = numberType(entry);
  const { rows } = tensor.sources;
  if (tensor.isSinglePrecision) {
    const all = reader.readF32(entry.name);
    const values = rows === null ? all : new Float32Array((all.length / rows.of) * rows.count);
    if (rows !== null) takeRows(rows, all, values);
    if (tensor.offset !== 0) values.forEach((value, i) => (values[i] = value + tensor.offset));
    if (tensor.isNegatedExponential) values.forEach((value, i) => (values[i] = -Math.exp(value)));
    const bytes = new Uint8Array(orderValueHeads(values, tensor.valueHeads, 'tiles').buffer);
    requireFinite(bytes, 'F32', source);
    yield heads === null ? bytes : interleaved(bytes, heads, bytes.length / dims[0]!);
    return;
  }
  if (rows !== null) {
    for (const matrix of reader.pieces(entry.name, (entry.end - entry.start) / rows.numMatrices)) {
      requireFinite(matrix, dtype, source);
      yield rowsOfMatrix(matrix, dtype, rows);
    }
    return;
  }
  if (tensor.valueHeads !== null) {
    for (const matrix of reader.pieces(entry.name, entry.end - entry.start)) {
      requireFinite(matrix, dtype, source);
      yield orderValueHeads(matrix, tensor.valueHeads, 'tiles', dtype === 'F32' ? 4 : 2);
    }
    return;
  }
  const rowBytes = (entry.end - entry.start) / dims[0]!;
  const headBytes = heads === null ? null : (rowBytes * dims[0]!) / heads;
  for (const piece of reader.pieces(entry.name, headBytes ?? PIECE_BYTES)) {
    requireFinite(piece, dtype, source);
    yield headBytes === null ? piece : interleaved(piece, 1, rowBytes);
  }
}

function rowsOfMatrix(
  { buffer, byteOffset, length }: Uint8Array<ArrayBuffer>,
  dtype: SafetensorsDtype,
  rows: MatrixRows,
): Uint8Array {
  const size = dtype === 'F32' ? 4 : 2;
  const into = new ArrayBuffer((length / rows.of) * rows.count);
  const one = { ...rows, numMatrices: 1 };
  if (size === 4) takeRows(one, new Uint32Array(buffer, byteOffset, length / 4), new Uint32Array(into));
  else takeRows(one, new Uint16Array(buffer, byteOffset, length / 2), new Uint16Array(into));
  return new Uint8Array(into);
}

const BLOCK_BYTES = MXFP4_VALUES / 2;
/** Exponents above it make the largest value of a block, 6 · 2^(e - 127), infinite in single precision. */
const MOST_EXPONENT = 252;

/**
 * Blocks of MXFP4 in ggml's layout: a scale, then sixteen bytes whose lower halves are the first sixteen values. In the
 * folder each byte has two neighbours, the first in its lower half, and scales are apart.
 *
 * @throws {ModelFolderError} for scales whose values are not finite, with the tensor's name
 */
export function* mxfp4Bytes({ sources }: TableTensor, blocks: ShardTensor, scales: ShardTensor): Generator<Uint8Array> {
  const { dims, rows } = sources;
  const pieces = ({ entry, reader }: ShardTensor) => reader.pieces(entry.name, (entry.end - entry.start) / dims[0]!);
  const own = (matrix: Uint8Array): Uint8Array => {
    if (rows === null) return matrix;
    const some = new Uint8Array((matrix.length / rows.of) * rows.count);
    takeRows({ ...rows, numMatrices: 1 }, matrix, some);
    return some;
  };
  const ofScales = pieces(scales);
  for (const matrix of pieces(blocks)) {
    const exponents = own(ofScales.next().value as Uint8Array);
    if (exponents.some((exponent) => exponent > MOST_EXPONENT))
      throw new ModelFolderError(
        `the tensor ${scales.entry.name} has a scale of NaN or infinite values: the weights are damaged, download them again`,
      );
    yield ggmlBlocks(exponents, own(matrix));
  }
}

/** @param pairs sixteen bytes per scale */
function ggmlBlocks(scales: Uint8Array, pairs: Uint8Array): Uint8Array {
  const stored = new Uint8Array(scales.length * (1 + BLOCK_BYTES));
  const half = BLOCK_BYTES / 2;
  for (let block = 0, from = 0, to = 0; block < scales.length; block++, from += half) {
    stored[to++] = scales[block]!;
    for (const end = from + half; from < end; from++) {
      const [low, high] = [pairs[from]!, pairs[from + half]!];
      stored[to++] = (low & 15) | ((high & 15) << 4);
      stored[to++] = (low >> 4) | (high & 0xf0);
    }
  }
  return stored;
}

/** Row j + i·D/2 of each head becomes its row 2j + i. */
function interleaved(bytes: Uint8Array, heads: number, rowBytes: number): Uint8Array {
  const result = new Uint8Array(bytes.length);
  const rows = bytes.length / rowBytes / heads;
  for (let head = 0; head < heads; head++)
    for (let row = 0; row < rows; row++) {
      const from = (head * rows + (row >> 1) + (row & 1) * (rows / 2)) * rowBytes;
      result.set(bytes.subarray(from, from + rowBytes), (head * rows + row) * rowBytes);
    }
  return result;
}

/** Values whose exponent has all bits set are NaN or infinite. */
const EXPONENTS: Readonly<Record<SafetensorsDtype, number>> = { F32: 0x7f80_0000, F16: 0x7c00, BF16: 0x7f80 };

function requireFinite(bytes: Uint8Array, dtype: SafetensorsDtype, source: string): void {
  const exponent = EXPONENTS[dtype];
  const { buffer, byteOffset, length } = bytes;
  const bits =
    dtype === 'F32' ? new Int32Array(buffer, byteOffset, length / 4) : new Uint16Array(buffer, byteOffset, length / 2);
  for (let i = 0; i < bits.length; i++)
    if ((bits[i]! & exponent) === exponent)
      throw new ModelFolderError(
        `the tensor ${source} has a NaN or infinite value: the weights are damaged, download them again`,
      );
}
