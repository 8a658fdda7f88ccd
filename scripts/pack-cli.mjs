/**
 * Packs the whole service as one package with the command `trainyard`: the packages as JavaScript, in the
 * same folders as here.
 *
 *   npm run pack -- cli                      creates packages/cli/dist/trainyard-cli-<version>.tgz and prints its path
 *   npm run pack -- cli --out FOLDER      puts it there
 */
import { cp, mkdir, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { stripTypeScriptTypes } from 'node:module';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

import { npmPack } from './lib/npm.mjs';

const ROOT = resolve(fileURLToPath(import.meta.url), '../..');
const SCOPE = '@trainyard/';
/** Bundled with its dependencies: the package contains only its build. */
const BUNDLED = 'dashboard';
/**
 * Indirect dependencies whose later versions need Node.js 22: npm would warn of them under the 20 that starts
 * the command.
 */
const PINNED = { 'light-my-request': '6.6.0' };
/** Files other than code, read at run time by a path relative to the code. */
const ASSETS = [
  'packages/constraints/wasm',
  'packages/native/kernels',
  'packages/tokenizer/wasm',
  'packages/dashboard/dist',
  'scripts/lib',
  'LICENSE',
  'README.md',
];
/** Documents that the service shows at `/guides`, with their pictures. */
const DOCUMENTS = ['docs', 'examples', 'ARCHITECTURE.md', 'CONTRIBUTING.md', 'CHANGELOG.md'];

const { values: flags } = parseArgs({ options: { out: { type: 'string', default: join(ROOT, 'packages/cli/dist') } } });
try {
  const out = resolve(flags.out);
  const folder = join(out, 'package');
  await rm(folder, { recursive: true, force: true });
  const manifests = await packageManifests();
  const entries = new Map(manifests.flatMap(({ name, manifest }) => entriesOf(name, manifest)));
  for (const { name } of manifests) await buildPackage(name, folder, entries);
  for (const asset of ASSETS) await cp(join(ROOT, asset), join(folder, asset), { recursive: true });
  for (const document of DOCUMENTS)
    await cp(join(ROOT, document), join(folder, document), { recursive: true, filter: isDocument });
  await cp(join(ROOT, 'packages/cli/bin'), join(folder, 'packages/cli/bin'), { recursive: true });
  await writeFile(join(folder, 'package.json'), `${JSON.stringify(await manifestOf(manifests), null, 2)}\n`);
  console.log(await npmPack(folder, out));
} catch (error) {
  process.stderr.write(`pack-cli: ${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
}

/** @param {string} path */
async function isDocument(path) {
  return (await stat(path)).isDirectory() || /\.(md|png|svg)$/.test(path);
}

/** @returns {Promise<{ name: string, manifest: Record<string, Record<string, string>> }[]>} one per folder */
async function packageManifests() {
  const entries = await readdir(join(ROOT, 'packages'), { withFileTypes: true });
  const names = entries.filter((entry) => entry.isDirectory() && entry.name !== BUNDLED).map(({ name }) => name);
  return await Promise.all(
    names.map(async (name) => ({
      name,
      manifest: JSON.parse(await readFile(join(ROOT, 'packages', name, 'package.json'), 'utf8')),
    })),
  );
}

/**
 * Public modules of a package by specifier, with their source below `packages`.
 * @param {string} name @param {Record<string, any>} manifest @returns {[specifier: string, path: string][]}
 */
function entriesOf(name, manifest) {
  return Object.entries(manifest['exports'] ?? {}).map(([entry, target]) => [
    SCOPE + name + entry.slice(1),
    join(name, target['@trainyard/source']),
  ]);
}

/** @param {string} name @param {string} folder @param {ReadonlyMap<string, string>} entries */
async function buildPackage(name, folder, entries) {
  const source = join(ROOT, 'packages', name);
  // Read at run time for the version.
  await mkdir(join(folder, 'packages', name), { recursive: true });
  await cp(join(source, 'package.json'), join(folder, 'packages', name, 'package.json'));
  for (const path of await readdir(join(source, 'src'), { recursive: true })) {
    if (!path.endsWith('.ts') || /\.(test|test-d|suite|fixture)\.ts$/.test(path) || path.includes('testing/')) continue;
    const target = join(folder, 'packages', name, 'src', path.replace(/\.ts$/, '.js'));
    const code = stripTypeScriptTypes(await readFile(join(source, 'src', path), 'utf8'));
    await mkdir(dirname(target), { recursive: true });
    await writeFile(target, withJavaScriptPaths(code, dirname(target), folder, entries));
  }
}

/**
 * Rewrites imports: our files end in `.js`, and our packages become relative paths.
 * @param {string} code @param {string} from folder of the file @param {string} folder of the package @param
 * {ReadonlyMap<string, string>} entries
 */
function withJavaScriptPaths(code, from, folder, entries) {
  return code
    .replaceAll(/'(\.{1,2}\/[^'\n]+)\.ts'/g, "'$1.js'")
    .replaceAll(/(\bfrom |\bimport |\bimport\()'(@trainyard\/[a-z/]+)'/g, (_match, keyword, specifier) => {
      const entry = entries.get(specifier);
      if (entry === undefined) throw new Error(`no package exports ${specifier}`);
      const path = relative(from, join(folder, 'packages', entry.replace(/\.ts$/, '.js'))).replaceAll('\\', '/');
      return `${keyword}'${path.startsWith('.') ? path : `./${path}`}'`;
    });
}

/** @param {Awaited<ReturnType<typeof packageManifests>>} manifests */
async function manifestOf(manifests) {
  const { version, description, license, engines, dependencies } = JSON.parse(
    await readFile(join(ROOT, 'package.json'), 'utf8'),
  );
  /** @param {string} group */
  const all = (group) =>
    Object.fromEntries(
      manifests
        .flatMap(({ manifest }) => Object.entries(manifest[group] ?? {}))
        .filter(([dependency]) => !dependency.startsWith(SCOPE))
        .toSorted(([first], [second]) => (first < second ? -1 : 1)),
    );
  return {
    // On the registry `trainyard` without a scope is another project.
    name: `${SCOPE}cli`,
    version,
    description,
    license,
    type: 'module',
    engines,
    bin: { trainyard: 'packages/cli/bin/trainyard.mjs' },
    dependencies: { ...dependencies, ...all('dependencies'), ...PINNED },
    optionalDependencies: all('optionalDependencies'),
  };
}
