import { openAsBlob } from 'node:fs';
import { stat } from 'node:fs/promises';

import { UsageError } from '../terminal/command-error.ts';

/**
 * Opens a file named on the command line; it is read during the upload. @throws {UsageError} if it cannot be
 * read
 */
export async function openFile(path: string): Promise<Blob> {
  try {
    // A folder opens like a file, and fails on reading.
    if (!(await stat(path)).isDirectory()) return await openAsBlob(path);
  } catch (error) {
    throw new UsageError(`cannot read the file ${path}`, { cause: error });
  }
  throw new UsageError(`${path} is a folder, expected a file`);
}
