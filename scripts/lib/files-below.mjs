import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

/** Folders with installed, built or deliberately wrong files. */
const SKIPPED = new Set(['node_modules', 'dist', 'target', 'fixtures', '.cache', '.trainyard']);

/**
 * Files below a folder; none if it does not exist.
 *
 * @param {string} root the repository
 * @param {string} folder relative to it
 * @param {RegExp} pattern of their names
 * @param {ReadonlySet<string>} skipped names of folders to leave out
 * @returns {string[]} paths relative to `root`
 */
export function filesBelow(root, folder, pattern, skipped = SKIPPED) {
  if (!existsSync(join(root, folder))) return [];
  return readdirSync(join(root, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return skipped.has(entry.name) ? [] : filesBelow(root, path, pattern, skipped);
    return pattern.test(entry.name) ? [path] : [];
  });
}
