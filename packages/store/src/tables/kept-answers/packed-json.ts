import { promisify } from 'node:util';
import { zstdCompress, zstdDecompress, type ZstdOptions } from 'node:zlib';

const compress = promisify(zstdCompress);
const decompress = promisify(zstdDecompress);

/** JSON text as it is stored, compressed outside the event loop. Its head says how long the text is. */
export async function packJson(text: string): Promise<Uint8Array> {
  const bytes = Buffer.from(text);
  // `@types/node` does not know it yet.
  const options: ZstdOptions & { pledgedSrcSize: number } = { pledgedSrcSize: bytes.byteLength };
  return await compress(bytes, options);
}

/** The text; never more bytes than its head says. */
export async function unpackJson(packed: Uint8Array): Promise<string> {
  return (await decompress(packed, { maxOutputLength: Math.max(1, unpackedBytes(packed)) })).toString('utf8');
}

/** Bytes of the text, by the head of its zstd frame (RFC 8878, 3.1.1). It is not unpacked for it. */
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
      throw new Error('a compressed text does not say its length');
  }
}
