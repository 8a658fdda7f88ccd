import { openAsBlob } from 'node:fs';
import { stat } from 'node:fs/promises';

import { UsageError } from '../terminal/command-error.ts';

/** A file that the command line names, read as it is sent. @throws {UsageError} when it cannot be read */
export async function openFile(path: string): Promise<Blob> {
  try {
    // A folder opens like a file, and fails where it is read.
    if (!(await stat(path)).isDirectory()) return await openAsBlob(path);
  } catch (error) {
    throw new UsageError(`cannot read the file ${path}`, { cause: error });
  }
  throw new UsageError(`${path} is a folder, expected a file`);
}
