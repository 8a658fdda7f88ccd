/**
 * Bundles the dashboard into `dist/`, which the service answers at `/`. Needs no other tool than esbuild, and
 * no network.
 *
 *   node packages/dashboard/build.mjs           builds if sources changed since the last build
 *   node packages/dashboard/build.mjs --force   always builds
 *   node packages/dashboard/build.mjs --sizes   builds and prints the size of each package
 */
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { basename, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';

const FOLDER = fileURLToPath(new URL('.', import.meta.url));
const ROOT = resolve(FOLDER, '../..');
const DIST = join(FOLDER, 'dist');
/** Written last: an interrupted build has no digest. */
const DIGEST = join(DIST, 'digest');
/** Limit for scripts and styles together, in bytes of gzip. */
export const MAX_GZIP_BYTES = 250_000;
/** Folders of the bundle's sources. The lock file has the versions of other packages. */
const SOURCES = ['packages/dashboard', 'packages/sdk', 'packages/protocol'];

/**
 * Builds the dashboard, unless `dist/` was built from the same sources.
 *
 * @param {{ isForced?: boolean, onBuild?: () => void }} [options]
 * @returns {Promise<{ gzipBytes: number, metafile: import('esbuild').Metafile | null }>} null when nothing was
 * built
 * @throws {Error} for sources that do not build, and for a bundle above {@link MAX_GZIP_BYTES}
 */
export async function buildDashboard({ isForced = false, onBuild = () => {} } = {}) {
  if (!isForced && isDashboardBuilt()) return { gzipBytes: gzipBytesOf(DIST), metafile: null };
  onBuild();
  const digest = digestOfSources();
  const folder = join(FOLDER, `dist.${process.pid}`);
  const metafile = await bundle(folder);
  const gzipBytes = gzipBytesOf(folder);
  if (gzipBytes > MAX_GZIP_BYTES) {
    await rm(folder, { recursive: true });
    throw new Error(
      `The dashboard has ${gzipBytes} bytes of gzip, the limit is ${MAX_GZIP_BYTES}. See node packages/dashboard/build.mjs --sizes`,
    );
  }
  await writeFile(join(folder, 'digest'), digest);
  // In one step, so that a starting service finds either the old or the new build.
  await rm(DIST, { recursive: true, force: true });
  await rename(folder, DIST);
  return { gzipBytes, metafile };
}

/** Returns true if `dist/` was built from these sources. */
export function isDashboardBuilt() {
  return existsSync(DIGEST) && readFileSync(DIGEST, 'utf8') === digestOfSources();
}

/** @param {string} folder */
async function bundle(folder) {
  const { build } = await import('esbuild');
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
  /** @satisfies {import('esbuild').BuildOptions} */
  const common = {
    outdir: join(folder, 'assets'),
    entryNames: '[name]-[hash]',
    chunkNames: '[name]-[hash]',
    assetNames: '[name]-[hash]',
    bundle: true,
    platform: /** @type {const} */ ('browser'),
    target: 'es2023',
    jsx: /** @type {const} */ ('automatic'),
    conditions: ['@trainyard/source'],
    define: { 'process.env.NODE_ENV': '"production"' },
    minify: true,
    legalComments: /** @type {const} */ ('none'),
    metafile: /** @type {const} */ (true),
    logLevel: /** @type {const} */ ('error'),
    absWorkingDir: ROOT,
  };
  const { metafile } = await build({
    ...common,
    entryPoints: { app: join(FOLDER, 'src/main.tsx') },
    splitting: true,
    format: 'esm',
  });
  // In one file: chunks shared with the page would be one more request before the page loads.
  const { metafile: ofWorker } = await build({
    ...common,
    entryPoints: { events: join(FOLDER, 'src/api/service-news/events-worker.ts') },
    format: 'iife',
  });
  const outputs = Object.entries(metafile.outputs);
  const [script, { cssBundle } = {}] = outputs.find(([, { entryPoint }]) => entryPoint !== undefined) ?? [];
  const [worker] = Object.keys(ofWorker.outputs);
  if (script === undefined || cssBundle === undefined || worker === undefined)
    throw new Error('the build of the dashboard has no entry');
  await writeFile(join(folder, 'licences.txt'), licencesOf(Object.keys(metafile.inputs)));
  const page = (await readFile(join(FOLDER, 'index.html'), 'utf8'))
    .replace('SCRIPT', `/assets/${basename(script)}`)
    .replace('STYLE', `/assets/${basename(cssBundle)}`)
    .replace('WORKER', `/assets/${basename(worker)}`);
  await writeFile(join(folder, 'index.html'), page);
  await writeBrotli(join(folder, 'assets'));
  return { inputs: metafile.inputs, outputs: { ...metafile.outputs, ...ofWorker.outputs } };
}

/**
 * Licences of the bundled packages, which require a copy.
 *
 * @param {readonly string[]} inputs relative to the repository
 */
function licencesOf(inputs) {
  const folders = inputs.flatMap((path) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path)?.[0] ?? []);
  return [...new Set(folders)]
    .toSorted()
    .map((folder) => {
      const { name, version, license } = JSON.parse(readFileSync(join(ROOT, folder, 'package.json'), 'utf8'));
      const file = readdirSync(join(ROOT, folder)).find((path) => /^licen[cs]e/i.test(path));
      const text = file === undefined ? `${license}\n` : readFileSync(join(ROOT, folder, file), 'utf8');
      return `${name} ${version}\n\n${text}`;
    })
    .join('\n\n');
}

/**
 * Writes a compressed copy next to each asset: at a start of the service it would take a third of a second.
 *
 * @param {string} assets folder
 */
async function writeBrotli(assets) {
  // 9: the largest quality is 7 % smaller, and takes 5 s.
  const params = { [constants.BROTLI_PARAM_QUALITY]: 9 };
  for (const name of readdirSync(assets)) {
    const content = await readFile(join(assets, name));
    await writeFile(join(assets, `${name}.br`), brotliCompressSync(content, { params }));
  }
}

/** @param {string} folder of a build */
function gzipBytesOf(folder) {
  const names = readdirSync(join(folder, 'assets')).filter((name) => !name.endsWith('.br'));
  const files = names.map((name) => readFileSync(join(folder, 'assets', name)));
  return files.reduce((sum, content) => sum + gzipSync(content, { level: 9 }).length, 0);
}

function digestOfSources() {
  const digest = createHash('sha256');
  for (const path of [...SOURCES.flatMap(filesBelow), 'package-lock.json'].toSorted()) {
    digest.update(`${path}\0`).update(readFileSync(join(ROOT, path)));
  }
  return digest.digest('hex');
}

/** @param {string} folder relative to the repository @returns {string[]} sources without tests */
function filesBelow(folder) {
  return readdirSync(join(ROOT, folder), { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(ROOT, join(entry.parentPath, entry.name)))
    .filter((path) => !/\/(dist|node_modules)[./]|\.test\.tsx?$|README\.md$/.test(path));
}

/** Prints the largest packages, before compression. @param {import('esbuild').Metafile} metafile */
function printSizes({ outputs }) {
  /** @type {Map<string, number>} */
  const bytesOf = new Map();
  for (const { inputs } of Object.values(outputs)) {
    for (const [path, { bytesInOutput }] of Object.entries(inputs)) {
      const name = /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)?.[1] ?? path.split('/').slice(0, 2).join('/');
      bytesOf.set(name, (bytesOf.get(name) ?? 0) + bytesInOutput);
    }
  }
  for (const [name, bytes] of [...bytesOf].toSorted(([, first], [, second]) => second - first).slice(0, 30))
    console.log(`${String(bytes).padStart(8)}  ${name}`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const wantsSizes = process.argv.includes('--sizes');
  const { gzipBytes, metafile } = await buildDashboard({ isForced: wantsSizes || process.argv.includes('--force') });
  if (wantsSizes && metafile !== null) printSizes(metafile);
  console.log(
    `dashboard: ${metafile !== null ? 'built' : 'unchanged'}, ${(gzipBytes / 1000).toFixed(1)} of ${MAX_GZIP_BYTES / 1000} kB gzip`,
  );
}
