import { closeSync, fsyncSync, mkdirSync, openSync, renameSync, rmSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';
import { TrainerError } from '../contract/errors.ts';

/**
 * Makes `path` a directory with the files that `fill` writes, whole or not at all: they go to a temporary directory beside it, which is
 * synced and renamed. What was there before is replaced. A leftover of a crashed attempt is removed.
 *
 * @param fill gets the temporary directory and must sync each file it writes
 * @throws {TrainerError} `trainer.disk_full`; otherwise what `fill` throws. The temporary directory is gone in both cases.
 */
export function replaceDirectory<Result>(path: string, fill: (temporary: string) => Result): Result {
  const temporary = `${path}.partial`;
  try {
    rmSync(temporary, { recursive: true, force: true });
    makeFolders(temporary);
    const result = fill(temporary);
    syncDirectory(temporary);
    rmSync(path, { recursive: true, force: true });
    renameSync(temporary, path);
    syncDirectory(dirname(path));
    return result;
  } catch (error) {
    rmSync(temporary, { recursive: true, force: true });
    throw diskFault(error, path);
  }
}

/** Writes a file in place of the one that has the name, which is there whole until then. @throws {TrainerError} `trainer.disk_full` */
export function replaceFile(path: string, content: string | Uint8Array): void {
  const temporary = `${path}.partial`;
  try {
    rmSync(temporary, { force: true });
    writeDurableFile(temporary, content);
    renameSync(temporary, path);
    syncDirectory(dirname(path));
  } catch (error) {
    rmSync(temporary, { force: true });
    throw diskFault(error, path);
  }
}

/** Makes a folder and those above it that are missing, and syncs the one above each. */
export function makeFolders(path: string): void {
  const highest = mkdirSync(path, { recursive: true });
  if (highest === undefined) return;
  for (let made = path; made.length >= highest.length; made = dirname(made)) syncDirectory(dirname(made));
}

/** Writes a new text file and syncs it to disk. */
export function writeDurableText(path: string, text: string): void {
  writeDurableFile(path, text);
}

function writeDurableFile(path: string, content: string | Uint8Array): void {
  const descriptor = openSync(path, 'wx');
  try {
    const bytes = typeof content === 'string' ? Buffer.from(content) : content;
    for (let done = 0; done < bytes.length;) done += writeSync(descriptor, bytes, done);
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

/** `trainer.disk_full` for an error of a full disk; every other error as it is. */
export function diskFault(error: unknown, path: string): unknown {
  const isFull = error instanceof Error && 'code' in error && (error.code === 'ENOSPC' || error.code === 'EDQUOT');
  return isFull ? new TrainerError('trainer.disk_full', `no space left to write ${path}`, { cause: error }) : error;
}

/** Makes new names and renames in a folder durable. */
export function syncDirectory(path: string): void {
  if (process.platform === 'win32') return; // opens no directories, and journals the rename itself
  const descriptor = openSync(path, 'r');
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}
