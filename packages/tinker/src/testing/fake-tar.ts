import { gzipSync } from 'node:zlib';

/** Gzipped as by servers: a folder `/` first, then the files. */
export function fakeArchive(files: Readonly<Record<string, Uint8Array>>): Uint8Array {
  const parts: Uint8Array[] = [header('/', 0, '5')];
  for (const [name, content] of Object.entries(files)) {
    parts.push(header(name, content.length, '0'), content, new Uint8Array((512 - (content.length % 512)) % 512));
  }
  return gzipSync(Buffer.concat([...parts, new Uint8Array(1024)]));
}

function header(name: string, size: number, type: string): Uint8Array {
  const block = Buffer.alloc(512);
  block.write(name, 0);
  block.write('0000644\0', 100);
  block.write(`${size.toString(8).padStart(11, '0')}\0`, 124);
  block.write(type, 156);
  block.write('ustar\x0000', 257);
  return block;
}
