import { closeSync, fsyncSync, mkdirSync, openSync, renameSync, rmSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';
import { TrainerError } from '../contract/errors.ts';

/**
 * Replaces the directory `path` completely or not at all: `fill` writes to a temporary directory next to it,
 * which is synced and renamed. Removes leftovers of a crashed attempt.
 *
 * @param fill must sync each file it writes
 * @throws {TrainerError} `trainer.disk_full`; otherwise the error of `fill`. The temporary directory is removed
 * in both cases.
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

/** Replaces a file atomically. @throws {TrainerError} `trainer.disk_full` */
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

/** Syncs the parent of each created folder. */
export function makeFolders(path: string): void {
  const highest = mkdirSync(path, { recursive: true });
  if (highest === undefined) return;
  for (let made = path; made.length >= highest.length; made = dirname(made)) syncDirectory(dirname(made));
}

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

/** Returns errors other than a full disk unchanged. */
export function diskFault(error: unknown, path: string): unknown {
  const isFull = error instanceof Error && 'code' in error && (error.code === 'ENOSPC' || error.code === 'EDQUOT');
  return isFull ? new TrainerError('trainer.disk_full', `no space left to write ${path}`, { cause: error }) : error;
}

/** Makes the content of a written file durable. */
export function syncFile(path: string): void {
  sync(path, 'r+');
}

/** Makes new names and renames in a folder durable. */
export function syncDirectory(path: string): void {
  // Windows opens no directories, and journals the rename itself.
  if (process.platform !== 'win32') sync(path, 'r');
}

function sync(path: string, flags: 'r' | 'r+'): void {
  const descriptor = openSync(path, flags);
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}
