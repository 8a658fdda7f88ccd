import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';

import { filesBelow } from './files-below.mjs';

/** Variable with the folder of the bundles. */
export const BUNDLE_VARIABLE = 'TRAINYARD_TEST_BUNDLE';

/** Programs that tests start often, relative to the repository. */
export const BUNDLED_PROGRAMS = [
  'packages/cli/src/main.ts',
  'packages/server/src/testing/instant-main.ts',
  'packages/server/src/testing/scripted-main.ts',
];

/** `new URL('./trainer-host.ts', import.meta.url)`: a module that another process or thread starts with. */
const MODULE_URL = /new URL\(([^()]*\.ts'[^()]*), import\.meta\.url,?\s*\)/g;
const MODULE_PATH = /'(\.{1,2}\/[^'\n]+)\.ts'/g;
/** In the outputs until the digest is known that names their folder. */
const FOLDER = 'file:///folder-of-the-bundle/';
const UNUSED_AFTER_MS = 24 * 3600 * 1000;

/**
 * Bundles {@link BUNDLED_PROGRAMS} and the modules that their processes and threads start with into a few
 * files, with npm packages left out. Paths from the location of a source still start at that source.
 *
 * @param {string} root the repository
 * @returns {Promise<string>} a folder below `.cache` named by its content, with `packages/cli/src/main.js` and so on
 * @throws {Error} for sources that do not build
 */
export async function bundlePrograms(root) {
  const sources = filesBelow(root, 'packages', /(?<!\.test)\.ts$/).map((path) => join(root, path));
  const entryPoints = new Set(BUNDLED_PROGRAMS.map((path) => join(root, path)));
  for (const path of sources) for (const module of modulesStartedBy(path)) entryPoints.add(module);
  const esbuild = await import('esbuild');
  const { outputFiles } = await esbuild.build({
    entryPoints: [...entryPoints],
    outdir: root,
    outbase: root,
    bundle: true,
    splitting: true,
    keepNames: true,
    write: false,
    format: 'esm',
    platform: 'node',
    target: 'node24',
    conditions: ['@trainyard/source'],
    // As Node.js removes types: no import is dropped, and fields are defined.
    tsconfigRaw: { compilerOptions: { verbatimModuleSyntax: true, target: 'esnext' } },
    logLevel: 'error',
    plugins: [
      {
        name: 'places',
        setup(build) {
          build.onResolve({ filter: /^[^./]/ }, ({ path }) =>
            path.startsWith('@trainyard/') ? undefined : { path, external: true },
          );
          build.onLoad({ filter: /\.ts$/ }, ({ path }) => ({ contents: withPlaces(path, root), loader: 'ts' }));
        },
      },
    ],
  });
  await esbuild.stop();
  const files = outputFiles.map(({ path, text }) => ({ path: relative(root, path), text }));
  const digest = createHash('sha256').update(JSON.stringify(files)).digest('hex').slice(0, 16);
  const parent = join(root, '.cache/bundled-for-tests');
  const folder = join(parent, digest);
  if (!existsSync(folder)) writeFiles(files, folder);
  removeUnused(parent, folder);
  return folder;
}

/** @param {string} path @returns {string[]} paths */
function modulesStartedBy(path) {
  const urls = readFileSync(path, 'utf8').matchAll(MODULE_URL);
  return [...urls].flatMap(([, argument = '']) =>
    [...argument.matchAll(MODULE_PATH)].map(([, module = '']) => resolve(dirname(path), `${module}.ts`)),
  );
}

/** Source whose `import.meta` has its own location, and the bundle's for modules to start. @param {string} path @param {string} root */
function withPlaces(path, root) {
  return readFileSync(path, 'utf8')
    .replaceAll(MODULE_URL, (_url, /** @type {string} */ argument) => {
      const inBundle = argument.replaceAll(MODULE_PATH, (_path, /** @type {string} */ module) =>
        JSON.stringify(`${relative(root, resolve(dirname(path), module))}.js`),
      );
      return `new URL(${inBundle}, ${JSON.stringify(FOLDER)})`;
    })
    .replaceAll('import.meta.url', JSON.stringify(pathToFileURL(path).href))
    .replaceAll('import.meta.dirname', JSON.stringify(dirname(path)));
}

/** Writes all files in one step, next to those of a run that builds the same. @param {{ path: string, text: string }[]} files @param {string} folder */
function writeFiles(files, folder) {
  const draft = `${folder}.${process.pid}`;
  const url = `${pathToFileURL(folder).href}/`;
  for (const { path, text } of files) {
    mkdirSync(dirname(join(draft, path)), { recursive: true });
    writeFileSync(join(draft, path), text.replaceAll(FOLDER, url));
  }
  try {
    renameSync(draft, folder);
  } catch (error) {
    rmSync(draft, { recursive: true });
    if (!existsSync(folder)) throw error;
  }
}

/** Removes the bundles of earlier sources, unless a run may still use them. @param {string} parent @param {string} used */
function removeUnused(parent, used) {
  for (const path of readdirSync(parent).map((name) => join(parent, name)))
    if (path !== used && Date.now() - statSync(path).mtimeMs > UNUSED_AFTER_MS)
      rmSync(path, { recursive: true, force: true });
}
