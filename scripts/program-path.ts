import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';

import { BUNDLE_VARIABLE } from './lib/bundled-programs.mjs';

const ROOT = resolve(import.meta.dirname, '..');

/**
 * Path to start a program of this repository with. During tests it is its bundle, if it has one: the same code
 * in a few files, which starts in half the processor time (decision 71).
 *
 * @param source its TypeScript file, relative to the repository
 */
export function programPath(source: string): string {
  const bundles = process.env[BUNDLE_VARIABLE];
  const bundled = join(bundles ?? ROOT, source.replace(/\.ts$/, '.js'));
  return bundles !== undefined && existsSync(bundled) ? bundled : join(ROOT, source);
}
