import { randomFillSync } from 'node:crypto';
import { closeSync, openSync, statSync, writeSync } from 'node:fs';

const CHUNK_BYTES = 128 * 1024;
const FILE_MODE = 0o600;

/**
 * Creates a file that only takes disk space, private to its owner. Leaves a file of that size unchanged.
 *
 * @returns true if the file has that size; false if the disk is full, and the file has taken the rest
 */
export function fillSpace(path: string, sizeBytes: number): boolean {
  if (statSync(path, { throwIfNoEntry: false })?.size === sizeBytes) return true;
  let file: number | null = null;
  try {
    file = openSync(path, 'w', FILE_MODE);
    // Random, because compressing file systems would store zeros in no space.
    for (let left = sizeBytes; left > 0;)
      left -= writeSync(file, randomFillSync(Buffer.allocUnsafe(Math.min(CHUNK_BYTES, left))));
    return true;
  } catch {
    return false;
  } finally {
    if (file !== null) closeSync(file);
  }
}
