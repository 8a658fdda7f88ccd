import type { SafetensorsDtype } from '../checkpoint/safetensors-reader.ts';
import { ModelFolderError } from './model-folder-error.ts';
import type { ShardTensor } from './shards.ts';
import type { TableTensor } from './tensor-table.ts';

const PIECE_BYTES = 4 << 20;

/** GGUF type of each type of safetensors. */
export const STORED_TYPES = { F32: 'f32', F16: 'f16', BF16: 'bf16' } as const;

/** Type in the GGUF file. */
export function storedType(
  { isSinglePrecision }: TableTensor,
  { entry }: ShardTensor,
): (typeof STORED_TYPES)[SafetensorsDtype] {
  return isSinglePrecision ? 'f32' : STORED_TYPES[entry.dtype];
}

/**
 * Bytes of a source of a tensor for the GGUF file: those of the folder, with rows of q and k in interleaved order where the
 * table says so. At most one head, the matrices of one expert, or some megabytes are in memory.
 *
 * @throws {ModelFolderError} for NaN and infinite values, with the tensor's name
 */
export function* tensorBytes(tensor: TableTensor, { entry, reader }: ShardTensor): Generator<Uint8Array> {
  const { interleavedHeads: heads } = tensor;
  const { name: source, dims } = entry;
  if (tensor.isSinglePrecision) {
    const values = reader.readF32(entry.name);
    if (tensor.offset !== 0) values.forEach((value, i) => (values[i] = value + tensor.offset));
    const bytes = new Uint8Array(values.buffer);
    requireFinite(bytes, 'F32', source);
    yield heads === null ? bytes : interleaved(bytes, heads, bytes.length / dims[0]!);
    return;
  }
  if (tensor.sources.rows !== null) {
    const { numMatrices, of, first, count } = tensor.sources.rows;
    const matrixBytes = (entry.end - entry.start) / numMatrices;
    for (const matrix of reader.pieces(entry.name, matrixBytes)) {
      requireFinite(matrix, entry.dtype, source);
      yield matrix.subarray((first / of) * matrixBytes, ((first + count) / of) * matrixBytes);
    }
    return;
  }
  const rowBytes = (entry.end - entry.start) / dims[0]!;
  const headBytes = heads === null ? null : (rowBytes * dims[0]!) / heads;
  for (const piece of reader.pieces(entry.name, headBytes ?? PIECE_BYTES)) {
    requireFinite(piece, entry.dtype, source);
    yield headBytes === null ? piece : interleaved(piece, 1, rowBytes);
  }
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
