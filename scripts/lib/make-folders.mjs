import { existsSync, mkdirSync, statSync } from 'node:fs';
import { dirname } from 'node:path';

/**
 * Makes a folder, and those above it that are missing, by a call for each: Node's recursive `mkdir` never ends below `/proc`. Here once more besides
 * `packages/store`, since this runs before there are packages.
 *
 * @param {string} path
 * @throws what `mkdirSync` throws
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
