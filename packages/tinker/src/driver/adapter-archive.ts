import { gunzipSync } from 'node:zlib';

import { wireFault } from '../wire/wire-fault.ts';

export interface PeftFiles {
  readonly config: string;
  readonly weights: Uint8Array;
}

const BLOCK = 512;
const GZIP = Buffer.from([0x1f, 0x8b]);

/**
 * Reads a tar file, gzipped or not. Ignores folders and other files.
 *
 * @throws {TrainerError} `trainer.remote_refused` for anything else
 */
export function readAdapterArchive(bytes: Uint8Array): PeftFiles {
  const files = new Map<string, Uint8Array>();
  for (const [name, content] of tarFiles(unzipped(bytes))) files.set(name.slice(name.lastIndexOf('/') + 1), content);
  const config = files.get('adapter_config.json');
  const weights = files.get('adapter_model.safetensors');
  if (config === undefined || weights === undefined)
    throw wireFault(`an adapter archive contains only ${[...files.keys()].slice(0, 10).join(', ') || 'no files'}`);
  return { config: Buffer.from(config).toString('utf8'), weights };
}

function unzipped(bytes: Uint8Array): Uint8Array {
  if (!GZIP.equals(bytes.subarray(0, 2))) return bytes;
  try {
    return gunzipSync(bytes);
  } catch (cause) {
    throw wireFault('an adapter archive is damaged', cause);
  }
}

/** @see POSIX.1-2017, pax: "ustar Interchange Format" */
function* tarFiles(bytes: Uint8Array): Generator<[name: string, content: Uint8Array]> {
  for (let at = 0; at + BLOCK <= bytes.length;) {
    const header = bytes.subarray(at, at + BLOCK);
    if (header.every((byte) => byte === 0)) return;
    const size = sizeOf(header.subarray(124, 136));
    const content = bytes.subarray(at + BLOCK, at + BLOCK + size);
    if (content.length < size) throw wireFault('an adapter archive is truncated');
    const type = String.fromCharCode(header[156]!);
    if (type === '0' || type === '\0') yield [textIn(header.subarray(0, 100)), content];
    at += BLOCK + Math.ceil(size / BLOCK) * BLOCK;
  }
}

/** Reads octal text, or a big-endian number after a byte of 0x80. */
function sizeOf(field: Uint8Array): number {
  const isBinary = (field[0]! & 0x80) !== 0;
  const size = isBinary
    ? field.subarray(1).reduce((value, byte) => value * 256 + byte, 0)
    : parseInt(textIn(field).trim(), 8);
  if (Number.isSafeInteger(size) && size >= 0) return size;
  throw wireFault('an adapter archive is not a tar file');
}

function textIn(field: Uint8Array): string {
  const end = field.indexOf(0);
  return Buffer.from(end < 0 ? field : field.subarray(0, end)).toString('utf8');
}
