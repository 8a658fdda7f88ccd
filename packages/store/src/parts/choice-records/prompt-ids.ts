/** Encoding of the ids of a prompt: long ones take less than half of their plain size. */
import { constants, zstdCompressSync, zstdDecompressSync } from 'node:zlib';

/** Shorter ones stay plain: they fit a page of the database, so there is little to save. */
const MIN_PACKED_TOKENS = 256;
/** First number of a packed prompt; as an id it is negative, and no id is. */
const ZSTD_MAGIC = 0xfd2fb528;
/** Faster than its writer; higher levels save a few percent more. */
const LEVEL = 1;

/** Returns plain 32-bit numbers, or their bytes grouped by significance, lowest first, and compressed. */
export function packPromptIds(ids: Int32Array): Uint8Array {
  const raw = new Uint8Array(ids.buffer, ids.byteOffset, ids.byteLength);
  if (ids.length < MIN_PACKED_TOKENS) return raw;
  const planes = new Uint8Array(raw.length);
  for (let at = 0; at < raw.length; at += 1) planes[(at % 4) * ids.length + Math.floor(at / 4)] = raw[at]!;
  const packed = zstdCompressSync(planes, { params: { [constants.ZSTD_c_compressionLevel]: LEVEL } });
  return packed.length < raw.length ? packed : raw;
}

/** Ids in a new buffer. @throws {Error} for damaged packed bytes */
export function unpackPromptIds(bytes: Uint8Array): Int32Array {
  const raw = Uint8Array.from(bytes);
  if (raw.length < 4 || new DataView(raw.buffer).getUint32(0, true) !== ZSTD_MAGIC) return new Int32Array(raw.buffer);
  const planes = zstdDecompressSync(raw);
  const numIds = planes.length / 4;
  const unpacked = new Uint8Array(planes.length);
  for (let at = 0; at < unpacked.length; at += 1) unpacked[at] = planes[(at % 4) * numIds + Math.floor(at / 4)]!;
  return new Int32Array(unpacked.buffer);
}
