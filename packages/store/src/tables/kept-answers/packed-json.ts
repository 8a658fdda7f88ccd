import { promisify } from 'node:util';
import { zstdCompress, zstdDecompress } from 'node:zlib';

const compress = promisify(zstdCompress);
const decompress = promisify(zstdDecompress);

/** JSON text as it is stored, compressed outside the event loop. */
export async function packJson(text: string): Promise<Uint8Array> {
  return await compress(text);
}

export async function unpackJson(packed: Uint8Array): Promise<string> {
  return (await decompress(packed)).toString('utf8');
}
