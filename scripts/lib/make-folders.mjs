import { existsSync, mkdirSync, statSync } from 'node:fs';
import { dirname } from 'node:path';

/**
 * Creates a folder, and missing parents, with one call each: Node's recursive `mkdir` never ends below
 * `/proc`. A copy of the one in `packages/store`, because this runs before packages are installed.
 *
 * @param {string} path
 * @throws errors of `mkdirSync`
 */
export function makeFolders(path) {
  const above = dirname(path);
  if (above !== path && !existsSync(above)) makeFolders(above);
  try {
    mkdirSync(path);
  } catch (error) {
    if (!statSync(path, { throwIfNoEntry: false })?.isDirectory()) throw error;
  }
}
