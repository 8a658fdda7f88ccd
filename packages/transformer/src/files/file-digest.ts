import { createHash } from 'node:crypto';
import { closeSync, openSync, readSync } from 'node:fs';

const PIECE_BYTES = 4 << 20;

export function fileDigest(path: string): { sizeBytes: number; sha256: string } {
  const hash = createHash('sha256');
  const piece = new Uint8Array(PIECE_BYTES);
  const descriptor = openSync(path, 'r');
  try {
    let sizeBytes = 0;
    for (;;) {
      const count = readSync(descriptor, piece, 0, piece.length, sizeBytes);
      if (count === 0) return { sizeBytes, sha256: hash.digest('hex') };
      hash.update(piece.subarray(0, count));
      sizeBytes += count;
    }
  } finally {
    closeSync(descriptor);
  }
}
