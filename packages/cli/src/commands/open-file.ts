import { openAsBlob } from 'node:fs';
import { stat } from 'node:fs/promises';

import { UsageError } from '../terminal/command-error.ts';

/** A file that the command line names, read as it is sent. @throws {UsageError} when it cannot be read */
export async function openFile(path: string): Promise<Blob> {
  let isFolder: boolean;
  let content: Blob;
  try {
    // A folder opens like a file, and fails where it is read.
    isFolder = (await stat(path)).isDirectory();
    content = await openAsBlob(path);
  } catch (error) {
    throw new UsageError(`the file ${path} cannot be read`, { cause: error });
  }
  if (isFolder) throw new UsageError(`${path} is a folder, where a file is needed`);
  return content;
}
