/**
 * Wraps too wide prose in Markdown (the check `prose`) and draws the packages; `npm run format` runs it.
 *
 *   node scripts/wrap-docs.mjs
 */
import { writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

import { PICTURE } from './lib/check-arrows.mjs';
import { drawPackageGraph } from './lib/package-graph.mjs';
import { findWideProse } from './lib/prose-files.mjs';

const ROOT = resolve(fileURLToPath(import.meta.url), '../..');

for (const { path, wrapped } of findWideProse(ROOT)) {
  writeFileSync(join(ROOT, path), wrapped);
  console.log(`wrapped ${path}`);
}
writeFileSync(join(ROOT, PICTURE), drawPackageGraph());
