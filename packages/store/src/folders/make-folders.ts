import { existsSync, mkdirSync, statSync } from 'node:fs';
import { dirname } from 'node:path';

import { syncFolder } from './replace-file.ts';

/**
 * Creates a folder and its missing parents with one call each: Node's recursive `mkdir` never ends if the
 * parent exists but takes no folders, as `/proc`. All user-named folders are created here. The parent of each
 * new one is synced, because a power cut could lose the whole branch.
 *
 * @param mode of the new folders. Default 0o777, less the umask
 * @returns the highest new folder; undefined if all existed
 * @throws errors of `mkdirSync`, also if something else has the name
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
