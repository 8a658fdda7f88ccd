import { pipeline, Readable } from 'node:stream';
import { constants, createZstdCompress, createZstdDecompress } from 'node:zlib';
import { StoreError } from '../contract/errors.ts';
import { fileFault } from './file-fault.ts';

/**
 * Compresses with zstd and a checksum. Failures of the source reach the reader of the result; a reader that
 * stops early stops the source.
 */
export function compress(chunks: Iterable<Buffer> | AsyncIterable<Buffer>): Readable {
  const compressor = createZstdCompress({ params: { [constants.ZSTD_c_checksumFlag]: 1 } });
  return pipeline(Readable.from(chunks), compressor, () => {});
}

/**
 * @param key names the blob in errors
 * @throws {StoreError} `store.blob_corrupt` during reading if it is damaged or truncated
 */
export async function* decompress(source: Readable | Buffer, key: string): AsyncGenerator<Buffer> {
  const input = source instanceof Readable ? source : Readable.from([source]);
  const output = pipeline(input, createZstdDecompress(), () => {}); // failures surface in the loop below
  try {
    yield* output;
  } catch (error) {
    throw isZstdError(error)
      ? new StoreError('store.blob_corrupt', `blob ${key} cannot be decompressed (${error.message})`, { cause: error })
      : fileFault(error, `blob ${key}`);
  }
}

function isZstdError(error: unknown): error is Error {
  return error instanceof Error && 'code' in error && /^(ZSTD_|Z_|ERR_ZLIB)/.test(String(error.code));
}
