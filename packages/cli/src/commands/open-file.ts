import { openAsBlob } from 'node:fs';

import { UsageError } from '../terminal/command-error.ts';

/** A file that the command line names, read as it is sent. @throws {UsageError} when it cannot be read */
export async function openFile(path: string): Promise<Blob> {
  try {
    return await openAsBlob(path);
  } catch (error) {
    throw new UsageError(`the file ${path} cannot be read`, { cause: error });
  }
}
