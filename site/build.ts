/**
 * Builds the site of the documentation, from the Markdown of the repository and from the code, and checks its links.
 *
 *   npm run docs                     into site/dist, to be served by any web server
 *   npm run docs -- --base /docs/    to be served under a path
 *   npm run docs -- --watch          serves it on 127.0.0.1:4321 and follows changes of pages
 */
import { spawn } from 'node:child_process';
import { existsSync, watch } from 'node:fs';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';

import { brokenLinks } from './contents/built-links.ts';
import { writePages } from './contents/write-pages.ts';
import { npm } from '../scripts/lib/npm.mjs';

const ROOT = resolve(import.meta.dirname, '..');
const SITE = join(ROOT, 'site');
/** Editors write a file in several steps; pages are rewritten after this time without changes. */
const QUIET_MS = 200;

const { values } = parseArgs({
  options: { base: { type: 'string', default: '/' }, watch: { type: 'boolean', default: false } },
});
if (!/^\/(.*\/)?$/.test(values.base)) {
  console.error(`--base must start and end with a slash, got ${values.base}`);
  process.exit(2);
}

if (!existsSync(join(SITE, 'node_modules/astro'))) {
  console.error('docs: installing the site generator into site/node_modules (about 190 MB)');
  // Not `ci`: it needs every platform's packages in the lock file, which has only those available when it was
  // made.
  await npm(SITE, ['install', '--no-save', '--ignore-scripts', '--no-audit', '--no-fund']);
}
const pages = writePages(ROOT, { base: values.base });
if (values.watch) {
  followChanges();
  process.exitCode = await astro('dev', '--host', '127.0.0.1', '--port', '4321');
} else {
  process.exitCode = await astro('build');
  if (process.exitCode === 0) {
    const broken = brokenLinks(join(SITE, 'dist'), values.base);
    for (const line of broken) console.error(line);
    console.log(`docs: ${pages.length} pages in site/dist, ${broken.length} broken links`);
    process.exitCode = broken.length === 0 ? 0 : 1;
  }
}

/** @returns the exit code */
async function astro(...args: string[]): Promise<number> {
  const child = spawn(process.execPath, [join(SITE, 'node_modules/astro/bin/astro.mjs'), ...args], {
    cwd: SITE,
    env: { ...process.env, DOCS_BASE: values.base, ASTRO_TELEMETRY_DISABLED: '1' },
    stdio: 'inherit',
  });
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => child.kill(signal));
  return await new Promise((done) => child.once('close', (code) => done(code ?? 1)));
}

/**
 * Rewrites the pages whenever a Markdown file or a picture changes; generated pages stay until the next
 * start.
 */
function followChanges(): void {
  let timer: NodeJS.Timeout | undefined;
  for (const folder of ['docs', 'examples'])
    watch(join(ROOT, folder), { recursive: true }, () => {
      clearTimeout(timer);
      timer = setTimeout(() => writePages(ROOT, { base: values.base }), QUIET_MS);
    });
}
