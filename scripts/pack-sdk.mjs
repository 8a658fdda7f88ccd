/**
 * Builds and packs the SDK: a JavaScript file and a file of types for each of its two entries, without
 * dependencies, checked by publint and arethetypeswrong. Code from other packages is in that file, with their
 * licences next to it.
 *
 *   npm run pack -- sdk                      creates packages/sdk/dist/trainyard-sdk-<version>.tgz and prints its path
 *   npm run pack -- sdk --out FOLDER      puts it there
 */
import { copyFile, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';

import { clientTools } from './lib/client-tools.mjs';
import { npmPack } from './lib/npm.mjs';
import { writeSdkDeclarations } from './lib/sdk-declarations.mjs';

const ROOT = resolve(fileURLToPath(import.meta.url), '../..');
const SOURCE = join(ROOT, 'packages/sdk');
const THIRD_PARTY_LICENCES = 'THIRD-PARTY-LICENCES.txt';

/** The files, each with its source. */
const ENTRIES = { index: 'index.ts', rollouts: 'rollouts/index.ts' };

const BUNDLE = {
  bundle: true,
  format: 'esm',
  platform: 'neutral',
  // Supported by Node.js 20 and browsers of 2023.
  target: 'es2022',
  conditions: ['@trainyard/source'],
  logLevel: 'error',
  metafile: true,
};

/** The core is only in its own file. */
const besideCore = {
  name: 'beside-core',
  /** @param {{ onResolve: (options: { filter: RegExp }, find: () => object) => void }} build */
  setup(build) {
    build.onResolve({ filter: /^\.\.\/index\.ts$/ }, () => ({ path: './index.js', external: true }));
  },
};

/** @param {string} line */
const log = (line) => void process.stderr.write(`pack-sdk: ${line}\n`);

const { values: flags } = parseArgs({ options: { out: { type: 'string', default: join(SOURCE, 'dist') } } });
try {
  const tools = await clientTools(ROOT, log);
  const out = resolve(flags.out);
  const folder = join(out, 'package');
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
  await build(folder, tools);
  const tarball = await npmPack(folder, out);
  await refuseFaults(folder, tarball, tools);
  console.log(tarball);
} catch (error) {
  log(error instanceof Error ? error.message : String(error));
  process.exitCode = 1;
}

/** @param {string} folder @param {NodeJS.Require} tools */
async function build(folder, tools) {
  const manifest = JSON.parse(await readFile(join(SOURCE, 'package.json'), 'utf8'));
  const { name, version, description, license } = manifest;
  /** @type {Set<string>} */
  const inputs = new Set();
  for (const [file, source] of Object.entries(ENTRIES)) {
    const { metafile } = await tools('esbuild').build({
      ...BUNDLE,
      entryPoints: [join(SOURCE, 'src', source)],
      outfile: join(folder, `${file}.js`),
      plugins: [besideCore],
    });
    for (const path of Object.keys(metafile.inputs)) inputs.add(path);
  }
  await writeFile(join(folder, THIRD_PARTY_LICENCES), await licencesOf([...inputs]));
  await writeSdkDeclarations(ROOT, folder, ENTRIES, tools);
  const published = {
    name,
    version,
    description,
    license,
    type: 'module',
    sideEffects: false,
    engines: { node: '>=20' },
    // For resolvers that do not read "exports".
    main: './index.js',
    types: './index.d.ts',
    exports: {
      '.': { types: './index.d.ts', default: './index.js' },
      './rollouts': { types: './rollouts.d.ts', default: './rollouts.js' },
      './package.json': './package.json',
    },
    files: [...Object.keys(ENTRIES).flatMap((file) => [`${file}.js`, `${file}.d.ts`]), THIRD_PARTY_LICENCES],
  };
  await writeFile(join(folder, 'package.json'), `${JSON.stringify(published, null, 2)}\n`);
  await copyFile(join(SOURCE, 'README.md'), join(folder, 'README.md'));
  await copyFile(join(ROOT, 'LICENSE'), join(folder, 'LICENSE'));
}

/**
 * Licences of the packages that the files come from, except ours.
 * @param {string[]} inputs paths of the bundled files
 */
async function licencesOf(inputs) {
  const folders = inputs.flatMap((path) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path)?.[0] ?? []);
  const texts = [...new Set(folders)].map(async (path) => {
    const { name, version } = JSON.parse(await readFile(resolve(path, 'package.json'), 'utf8'));
    return `${name} ${version}\n\n${await readFile(resolve(path, 'LICENSE'), 'utf8')}`;
  });
  return (await Promise.all(texts)).join('\n');
}

/**
 * @param {string} folder @param {string} tarball @param {NodeJS.Require} tools
 * @throws {Error} with the findings of publint and arethetypeswrong
 */
async function refuseFaults(folder, tarball, tools) {
  const load = async (/** @type {string} */ name) => await import(pathToFileURL(tools.resolve(name)).href);
  const { publint } = await load('publint');
  const { formatMessage } = await load('publint/utils');
  const { messages, pkg } = await publint({ pkgDir: folder, level: 'suggestion' });
  const faults = messages.map((/** @type {object} */ message) => `publint: ${formatMessage(message, pkg)}`);
  const { checkPackage, createPackageFromTarballData } = await load('@arethetypeswrong/core');
  const { types, problems } = await checkPackage(createPackageFromTarballData(await readFile(tarball)));
  if (types === false) faults.push('arethetypeswrong: no types');
  for (const problem of problems ?? []) {
    // It is only an ES module: a CommonJS file must import it dynamically if its Node.js cannot require
    // modules.
    if (problem.kind !== 'CJSResolvesToESM') faults.push(`arethetypeswrong: ${JSON.stringify(problem)}`);
  }
  if (faults.length > 0) throw new Error(faults.join('\n'));
}
