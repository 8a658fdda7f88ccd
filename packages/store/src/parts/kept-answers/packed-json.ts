import { promisify } from 'node:util';
import { zstdCompress, zstdCompressSync, zstdDecompress, zstdDecompressSync, type ZstdOptions } from 'node:zlib';

const compress = promisify(zstdCompress);
const decompress = promisify(zstdDecompress);

/**
 * A shorter text takes less time than a turn in the thread pool, each of which holds about 200 KB until it
 * ends.
 */
const SMALL_BYTES = 4096;

/**
 * Compresses JSON text for storage, outside the event loop unless it is small. The header contains the length
 * of the text.
 */
export async function packJson(text: string): Promise<Uint8Array> {
  const bytes = Buffer.from(text);
  // Missing in `@types/node`.
  const options: ZstdOptions & { pledgedSrcSize: number } = { pledgedSrcSize: bytes.byteLength };
  return bytes.byteLength <= SMALL_BYTES ? zstdCompressSync(bytes, options) : await compress(bytes, options);
}

/** Unpacks the text; never more bytes than its header states. */
export async function unpackJson(packed: Uint8Array): Promise<string> {
  const numBytes = unpackedBytes(packed);
  const options = { maxOutputLength: Math.max(1, numBytes) };
  const bytes = numBytes <= SMALL_BYTES ? zstdDecompressSync(packed, options) : await decompress(packed, options);
  return bytes.toString('utf8');
}

/** Packs texts without line breaks as one. */
export async function packLines(lines: readonly string[]): Promise<Uint8Array> {
  return await packJson(lines.join('\n'));
}

/**
 * Unpacks {@link packLines}. Rows of the first version of schema 30 are plain text, which starts with a
 * brace.
 */
export async function unpackLines(packed: Uint8Array): Promise<string[]> {
  const text = packed[0] === BRACE ? Buffer.from(packed).toString('utf8') : await unpackJson(packed);
  return text.split('\n');
}

const BRACE = 0x7b;

/** Longest start of a packed text that states its length. */
export const HEAD_BYTES = 18;

/** Bytes of the unpacked text, from the header of its zstd frame (RFC 8878, 3.1.1). */
export function unpackedBytes(packed: Uint8Array): number {
  const view = new DataView(packed.buffer, packed.byteOffset, packed.byteLength);
  const descriptor = view.getUint8(4);
  const isOneSegment = (descriptor & 0x20) !== 0;
  const at = 5 + (isOneSegment ? 0 : 1) + ([0, 1, 2, 4][descriptor & 3] ?? 0);
  switch (descriptor >> 6) {
    case 1:
      return view.getUint16(at, true) + 256;
    case 2:
      return view.getUint32(at, true);
    case 3:
      return Number(view.getBigUint64(at, true));
    default:
      if (isOneSegment) return view.getUint8(at);
      throw new Error('a compressed text has no length');
  }
}
