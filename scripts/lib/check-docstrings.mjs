import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const FOLDERS = ['packages', 'scripts', 'tests', 'bench', 'examples'];
const SOURCE = /\.(ts|mts|js|mjs)$/;
/** The first words of a docstring: on its own line, or on the one that opens it. */
const BEGINNING = /\/\*\*(?:[ \t]*\n\s*\*)?\s*(What|Of) .*/g;

/**
 * Docstrings that begin with half a sentence: "What …" and "Of …" leave the reader to find out what is meant. They name the thing first.
 *
 * @param {string} root the repository
 * @returns {string[]} one sentence for each, empty when all is well
 */
export function findHalfSentences(root) {
  const folders = FOLDERS.filter((folder) => existsSync(join(root, folder)));
  return folders
    .flatMap((folder) => sourcesBelow(root, folder))
    .flatMap((path) => {
      const text = readFileSync(join(root, path), 'utf8');
      return [...text.matchAll(BEGINNING)].map(({ index, 1: word }) => {
        const line = text.slice(0, index).split('\n').length;
        return `${path}:${line}: the docstring begins with "${word}": name the thing first`;
      });
    });
}

/** @param {string} root @param {string} folder @returns {string[]} */
function sourcesBelow(root, folder) {
  return readdirSync(join(root, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory())
      return ['node_modules', 'dist', 'target', 'fixtures'].includes(entry.name) ? [] : sourcesBelow(root, path);
    return SOURCE.test(entry.name) ? [path] : [];
  });
}
