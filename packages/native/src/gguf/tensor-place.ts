import assert from 'node:assert';
import { dequantize } from './dequantize.ts';
import { readFully } from './header-reader.ts';
import type { ByteRange } from './parse-header.ts';
import { TENSOR_TYPES } from './tensor-types.ts';

/** Place of a tensor in an open file, for all threads of the process. Valid while its `GgufFile` is open. */
export interface TensorPlace {
  readonly path: string;
  readonly descriptor: number;
  readonly offset: number;
  /** ggml's number of the type. */
  readonly typeId: number;
  readonly numValues: number;
}

/** Values of a tensor in memory, in the blocks of its type. */
export interface StoredValues extends Pick<TensorPlace, 'typeId' | 'numValues'> {
  readonly bytes: Uint8Array;
}

/** Place of some consecutive values, such as rows. @param first multiple of the type's block length, as is the number */
export function partOfTensor(place: TensorPlace, first: number, numValues: number): TensorPlace {
  const { start } = byteRange(place, first, numValues);
  return { ...place, offset: place.offset + start, numValues };
}

function byteRange(values: Pick<TensorPlace, 'typeId' | 'numValues'>, first: number, numValues: number): ByteRange {
  const { blockBytes, blockLength } = TENSOR_TYPES.get(values.typeId)!;
  assert(
    first >= 0 && first + numValues <= values.numValues,
    `values ${first} to ${first + numValues} of ${values.numValues}`,
  );
  assert(first % blockLength === 0 && numValues % blockLength === 0, `whole blocks of ${blockLength} values`);
  return { start: (first / blockLength) * blockBytes, end: ((first + numValues) / blockLength) * blockBytes };
}

// Stored bytes and their values stay in the processor's cache.
const PIECE_VALUES = 1 << 16;

let piece = new Uint8Array(0);

/**
 * Reads consecutive values of a tensor as float32, in order. Quantised blocks load the library for ggml's own
 * `to_float`.
 *
 * @param first multiple of the type's block length, as is the number of values
 * @param into written
 * @throws {NativeError} `native.gguf_malformed` if the file has become shorter, or ggml cannot expand the type
 */
export function readValues(place: TensorPlace | StoredValues, first: number, into: Float32Array): void {
  if ('bytes' in place) {
    const { start, end } = byteRange(place, first, into.length);
    return dequantize(TENSOR_TYPES.get(place.typeId)!, place.bytes.subarray(start, end), into);
  }
  const { path, descriptor, offset, typeId } = partOfTensor(place, first, into.length);
  const type = TENSOR_TYPES.get(typeId)!;
  const { blockBytes, blockLength } = type;
  const most = blockLength * Math.max(1, Math.floor(PIECE_VALUES / blockLength));
  for (let done = 0; done < into.length;) {
    const count = Math.min(most, into.length - done);
    const sizeBytes = (count / blockLength) * blockBytes;
    if (piece.length < sizeBytes) piece = new Uint8Array((most / blockLength) * blockBytes);
    const bytes = piece.subarray(0, sizeBytes);
    readFully(descriptor, bytes, offset + (done / blockLength) * blockBytes, path);
    dequantize(type, bytes, into.subarray(done, done + count));
    done += count;
  }
}
