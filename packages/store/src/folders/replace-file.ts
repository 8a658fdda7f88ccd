import { closeSync, fsyncSync, linkSync, openSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';

/** Error codes of file systems that do not sync folders, or have no hard links. */
const UNSUPPORTED: ReadonlySet<unknown> = new Set(['EINVAL', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EPERM', 'EBADF']);

/**
 * Writes a small file so that a power cut leaves the whole old one or the whole new one: writes and syncs a
 * temporary file next to it, renames it, and syncs the folder. Only the owner can read the file.
 */
export function replaceFile(path: string, content: string): void {
  throughTemporary(path, content, (temporary) => renameSync(temporary, path));
}

/**
 * Writes a small file in the same way if there is none of that name. @throws an error with the code `EEXIST`
 * if there is
 */
export function createFile(path: string, content: string): void {
  throughTemporary(path, content, (temporary) => {
    try {
      linkSync(temporary, path);
    } catch (error) {
      if (!isUnsupported(error)) throw error;
      writeFileSync(path, content, { flag: 'wx', mode: 0o600, flush: true });
    }
  });
}

function throughTemporary(path: string, content: string, publish: (temporary: string) => void): void {
  const temporary = `${path}.${process.pid}.new`;
  try {
    rmSync(temporary, { force: true });
    writeFileSync(temporary, content, { flag: 'wx', mode: 0o600, flush: true });
    publish(temporary);
  } finally {
    rmSync(temporary, { force: true });
  }
  syncFolder(dirname(path));
}

/** Runs fsync on a folder: makes new names and renames in it durable. */
export function syncFolder(path: string): void {
  if (process.platform === 'win32') return; // cannot open folders, and journals the rename itself
  const folder = openSync(path, 'r');
  try {
    fsyncSync(folder);
  } catch (error) {
    if (!isUnsupported(error)) throw error;
  } finally {
    closeSync(folder);
  }
}

const isUnsupported = (error: unknown): boolean => UNSUPPORTED.has((error as NodeJS.ErrnoException).code);
