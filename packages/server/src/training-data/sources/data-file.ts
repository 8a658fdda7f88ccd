import { constants } from 'node:fs';
import { open, realpath, stat } from 'node:fs/promises';
import { resolve, sep } from 'node:path';

/**
 * Opens the file of a `file:` URL below `directory`: `file:name.jsonl`, `file:folder/name.jsonl`, or the
 * absolute path as `file:///…`.
 * Links are resolved first and must end below the folder. All failures look the same, so that a client learns
 * nothing about other files.
 * @returns null if there is no such file
 */
export async function openDataFile(url: string, directory: string): Promise<AsyncIterable<Buffer> | null> {
  const path = pathOf(url);
  if (path === null || !path.endsWith('.jsonl')) return null;
  try {
    const root = await realpath(directory);
    const target = await realpath(resolve(root, path));
    if (!target.startsWith(root.endsWith(sep) ? root : root + sep) || !(await stat(target)).isFile()) return null;
    // The last part may have become a link, or a pipe without a writer, since the check.
    const file = await open(target, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    return file.createReadStream();
  } catch (error) {
    if (error instanceof Error && 'code' in error) return null;
    throw error;
  }
}

/** An absolute path, or one relative to the folder. */
function pathOf(url: string): string | null {
  const match = /^file:(?:\/\/(?:localhost)?(?=\/))?([^?#]+)$/i.exec(url);
  if (match?.[1] === undefined || match[1].startsWith('//')) return null;
  try {
    const path = decodeURIComponent(match[1]);
    return path.includes('\0') ? null : path;
  } catch {
    return null;
  }
}
