import { existsSync, mkdirSync, statSync } from 'node:fs';
import { dirname } from 'node:path';

import { syncFolder } from './replace-file.ts';

/**
 * Makes a folder, and those above it that are missing, by a call for each: Node's recursive `mkdir` never ends where the folder above is there and takes none,
 * as `/proc`. What somebody names is made by this alone. The folder above each new one is synced, or a power cut could lose the whole branch.
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
  } catch (error) {
    if (!isFolder(path)) throw error;
    return firstMade;
  }
  syncFolder(above);
  return firstMade ?? path;
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
}
