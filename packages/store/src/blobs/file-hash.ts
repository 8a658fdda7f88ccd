import { createHash } from 'node:crypto';
import { open, readdir } from 'node:fs/promises';
import { join } from 'node:path';

/** Paths of all files below a folder, joined by `/`. */
export async function filesBelow(root: string): Promise<string[]> {
  const entries = await readdir(root, { withFileTypes: true, recursive: true });
  const files = entries.filter((entry) => entry.isFile());
  return files.map(({ parentPath, name }) =>
    join(parentPath, name)
      .slice(root.length + 1)
      .replaceAll('\\', '/'),
  );
}

/** Returns the size and the SHA-256 of a file. Checks the signal after each chunk. */
export async function hashOf(path: string, signal?: AbortSignal): Promise<{ sizeBytes: number; sha256: string }> {
  const hash = createHash('sha256');
  let sizeBytes = 0;
  await using file = await open(path, 'r');
  for await (const chunk of file.createReadStream({ autoClose: false })) {
    signal?.throwIfAborted();
    hash.update(chunk as Buffer);
    sizeBytes += (chunk as Buffer).length;
  }
  return { sizeBytes, sha256: hash.digest('hex') };
}
