import { existsSync, mkdirSync, statSync } from 'node:fs';
import { dirname } from 'node:path';

/**
 * Makes a folder, and those above it that are missing, by a call for each: Node's recursive `mkdir` never ends where the folder above is there and takes none,
 * as `/proc`. What somebody names is made by this alone.
 *
 * @param mode of those that are made. Default 0o777, less the umask
 * @returns the highest that was made; undefined when all were there
 * @throws what `mkdirSync` throws, also where something else has the name
 */
export function makeFolders(path: string, mode = 0o777): string | undefined {
  const above = dirname(path);
  const firstMade = above === path || existsSync(above) ? undefined : makeFolders(above, mode);
  try {
    mkdirSync(path, { mode });
    return firstMade ?? path;
  } catch (error) {
    if (!isFolder(path)) throw error;
    return firstMade;
  }
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
}
