import { randomFillSync } from 'node:crypto';
import { closeSync, openSync, statSync, writeSync } from 'node:fs';

const CHUNK_BYTES = 128 * 1024;
const FILE_MODE = 0o600;

/**
 * Makes a file that only takes disk space, for its owner alone. A file that is as large already stays as it is.
 *
 * @returns whether it is as large; false: the disk has no room, and the file has what was left
 */
export function fillSpace(path: string, sizeBytes: number): boolean {
  if (statSync(path, { throwIfNoEntry: false })?.size === sizeBytes) return true;
  let file: number | null = null;
  try {
    file = openSync(path, 'w', FILE_MODE);
    // Random: file systems that compress would keep zeros in no space at all.
    for (let left = sizeBytes; left > 0;)
      left -= writeSync(file, randomFillSync(Buffer.allocUnsafe(Math.min(CHUNK_BYTES, left))));
    return true;
  } catch {
    return false;
  } finally {
    if (file !== null) closeSync(file);
  }
}
