import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

import { wrapProse } from './wrap-prose.mjs';

/** A log of the work: its lines stay unchanged. */
const UNWRAPPED = ['docs/lab/progress.md'];

/**
 * The Markdown files of a repository with too wide prose, with the corrected text.
 *
 * @param {string} root the repository
 * @returns {{ path: string, wrapped: string }[]} empty if there are none
 */
export function findWideProse(root) {
  return markdownFiles(root).flatMap((path) => {
    const text = readFileSync(join(root, path), 'utf8');
    const wrapped = wrapProse(text);
    return wrapped === text ? [] : [{ path, wrapped }];
  });
}

/** @param {string} root */
function markdownFiles(root) {
  const top = readdirSync(root);
  const docs = existsSync(join(root, 'docs'))
    ? readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' })
    : [];
  const packages = readdirSync(join(root, 'packages')).map((name) => `packages/${name}/README.md`);
  return [...top, ...docs.map((path) => `docs/${path}`), ...packages].filter(
    (path) => path.endsWith('.md') && !UNWRAPPED.includes(path) && existsSync(join(root, path)),
  );
}
