import { closeSync, fsyncSync, openSync, renameSync, rmSync } from 'node:fs';
import { dirname } from 'node:path';

let numFiles = 0;

/**
 * Replaces `path` completely or not at all, synced to disk.
 *
 * @param write fills a temporary file; if it throws, the file is removed and the error is rethrown
 */
export function replaceFile(path: string, write: (temporaryPath: string) => void): void {
  const temporary = `${path}.${process.pid}-${numFiles++}.partial`;
  try {
    write(temporary);
    sync(temporary, 'r+');
    renameSync(temporary, path);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw error;
  }
  if (process.platform !== 'win32') sync(dirname(path), 'r'); // Windows opens no folders, and journals the rename itself
}

function sync(path: string, flags: 'r' | 'r+'): void {
  const descriptor = openSync(path, flags);
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}
