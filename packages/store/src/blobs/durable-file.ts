import { type FileHandle, open, readdir } from 'node:fs/promises';
import { join } from 'node:path';

/** Writes the chunks to a new file and returns once they are on disk. @returns bytes written */
export async function writeDurably(
  path: string,
  chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  signal?: AbortSignal,
): Promise<number> {
  await using file = await open(path, 'wx', 0o600);
  let sizeBytes = 0;
  for await (const chunk of chunks) {
    signal?.throwIfAborted();
    await writeWhole(file, chunk);
    sizeBytes += chunk.byteLength;
  }
  signal?.throwIfAborted();
  await file.sync();
  return sizeBytes;
}

/** Runs fsync on a file or a directory. For a directory it makes renames and new names in it durable. */
export async function syncPath(path: string): Promise<void> {
  await using handle = await open(path, 'r');
  await handle.sync();
}

export async function syncTree(directory: string): Promise<void> {
  for (const entry of await readdir(directory, { withFileTypes: true })) {
    const path = join(directory, entry.name);
    if (entry.isDirectory()) await syncTree(path);
    else if (entry.isFile()) await syncPath(path);
  }
  await syncPath(directory);
}

/** Appends the whole chunk: a disk that fills up accepts part of a write before it refuses one. */
export async function writeWhole(file: FileHandle, chunk: Uint8Array): Promise<void> {
  let offset = 0;
  while (offset < chunk.byteLength) offset += (await file.write(chunk, offset)).bytesWritten;
}
