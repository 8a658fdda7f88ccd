/**
 * Runs tests, and ends with the ten slowest files and the line `N passed, N failed, N skipped`.
 *
 *   npm test                       the short set: units, native libraries, and one path through the product with the default model
 *   npm test -- packages/engine    Vitest's own arguments: path filters, -t <name>, --project unit|native|path|tests|model|postgres|torch
 *   npm run test:all               everything; with `-- --rest` everything except the short set
 */
import { spawn, spawnSync } from 'node:child_process';
import { readFileSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

import { findBrowser } from './lib/browser.mjs';
import { BUNDLE_VARIABLE, bundlePrograms } from './lib/bundled-programs.mjs';
import { COUNTS_FILE_VARIABLE, countLine, slowestLines } from './lib/count-reporter.mjs';
import { findPostgres } from './lib/postgres.mjs';
import { runFailedAgain } from './lib/second-run.mjs';
import { hasPythonEnvironment } from './lib/python-environment.mjs';
import { hasTorchEnvironment } from './lib/torch-environment.mjs';
import { makeTestFolder } from './lib/test-folder.mjs';
import { prepareTestModel } from './lib/test-model.mjs';

const ROOT = resolve(fileURLToPath(import.meta.url), '../..');

/** Cache of Node.js for all processes of the tests. */
const COMPILED = join(ROOT, '.cache/compiled-for-tests');

/**
 * Python keeps the bytecode of the clients there, in an image that forbids it, too. They are installed without it,
 * and ART's takes 7 s of processor time to import instead of 4 s.
 */
const PYTHON = { PYTHONPYCACHEPREFIX: join(ROOT, '.cache/compiled-python'), PYTHONDONTWRITEBYTECODE: '' };

/** Projects of the short set: they need neither Python, a browser nor a database server. */
const SHORT_SET = ['unit', 'native', 'path'];

const { flags, filters } = readArguments(process.argv.slice(2));
const isShortSet = filters.length === 0 && flags.size === 0;
const isWhole = filters.length === 0 && flags.size > 0;
const folder = makeTestFolder();
try {
  const environment = await preparedEnvironment();
  const first = await runCounted(projectsOf(), environment);
  const alone = (/** @type {{ project: string, path: string }} */ { project, path }) =>
    runCounted(['--project', project, '--no-file-parallelism', path], environment);
  const last = filters.length === 0 ? await runFailedAgain(first, alone) : { ...first, lines: [] };
  const { report: counts, exitCode } = last;
  const wantsPython = isWhole || filters.some((filter) => filter.includes('clients'));
  if (wantsPython && !(await hasPythonEnvironment(ROOT))) {
    console.log('\nTHE TESTS WITH PYTHON CLIENTS DID NOT RUN: "node scripts/bootstrap.mjs --python" shows the reason');
  }
  if (isWhole && findBrowser(process.env) === null) {
    console.log('\nTHE BROWSER TESTS DID NOT RUN: "node scripts/bootstrap.mjs --browser" shows the reason');
  }
  const wantsStore = isWhole || filters.some((filter) => filter.includes('store'));
  if (wantsStore && findPostgres(process.env) === null) {
    console.log('\nTHE POSTGRESQL TESTS DID NOT RUN: "node scripts/bootstrap.mjs --postgres" shows the reason');
  }
  if (isWhole && !(await hasTorchEnvironment(ROOT))) {
    console.log('\nTHE PYTORCH TESTS DID NOT RUN: install PyTorch with "node scripts/torch-environment.mjs"');
  }
  if (counts.slowest.length > 0) console.log(`\n${slowestLines(counts.slowest)}\n`);
  if (counts.repeated > 0)
    console.log(`${counts.repeated} of the passed tests repeat other tests on another back end or database`);
  for (const line of last.lines) console.log(line);
  const numRun = counts.passed + counts.failed;
  if (numRun === 0) console.log('\nNo test ran. This counts as a failure.');
  console.log(countLine(counts));
  process.exitCode = exitCode !== 0 || counts.failed > 0 || numRun === 0 ? exitCode || 1 : 0;
} finally {
  rmSync(folder, { recursive: true, force: true });
}

/** @param {readonly string[]} args */
function readArguments(args) {
  const own = new Set(['--all', '--rest']);
  return { flags: new Set(args.filter((arg) => own.has(arg))), filters: args.filter((arg) => !own.has(arg)) };
}

/** @returns {string[]} arguments of Vitest */
function projectsOf() {
  if (filters.length > 0 || (flags.has('--all') && !flags.has('--rest'))) return filters;
  return SHORT_SET.flatMap((name) => ['--project', flags.has('--rest') ? `!${name}` : name]);
}

/** Prepares the model and compiled sources. @returns {Promise<NodeJS.ProcessEnv>} */
async function preparedEnvironment() {
  const models = prepareTestModel(ROOT, process.env, (line) => console.log(line));
  const bundle = isShortSet ? {} : { [BUNDLE_VARIABLE]: await bundlePrograms(ROOT) };
  compileSources();
  return { ...process.env, ...models, ...bundle, ...PYTHON, NODE_COMPILE_CACHE: COMPILED, TMPDIR: folder };
}

/**
 * @param {string[]} filters @param {NodeJS.ProcessEnv} environment
 * @returns {Promise<import('./lib/second-run.mjs').Outcome>}
 */
async function runCounted(filters, environment) {
  const countsFile = join(folder, 'counts.json');
  rmSync(countsFile, { force: true });
  const exitCode = await runVitest(filters, { ...environment, [COUNTS_FILE_VARIABLE]: countsFile });
  return { report: readCounts(countsFile, exitCode), exitCode };
}

/** @param {string[]} filters @param {NodeJS.ProcessEnv} env @returns {Promise<number>} */
async function runVitest(filters, env) {
  const reporters = ['--reporter=default', `--reporter=${join(ROOT, 'scripts/lib/count-reporter.mjs')}`];
  const vitest = join(ROOT, 'node_modules/vitest/vitest.mjs');
  const child = spawn(process.execPath, [vitest, 'run', ...reporters, ...filters], {
    cwd: ROOT,
    stdio: 'inherit',
    env,
  });
  // Ctrl-C also reaches Vitest, which stops its workers; wait for it.
  process.on('SIGINT', () => {});
  process.on('SIGTERM', () => child.kill('SIGTERM'));
  return await new Promise((settle, fail) => {
    child.on('error', fail);
    child.on('close', (code) => settle(code ?? 1));
  });
}

/** Fills the cache, as each start of the service does, before there are threads, which must not remove types from sources. */
function compileSources() {
  const serve = ['--conditions=@trainyard/source', join(ROOT, 'packages/cli/src/main.ts'), 'serve', '--help'];
  const { status } = spawnSync(process.execPath, serve, {
    env: { ...process.env, NODE_COMPILE_CACHE: COMPILED },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  if (status !== 0) throw new Error(`the service cannot be loaded (exit code ${status})`);
}

/**
 * @param {string} countsFile @param {number} exitCode
 * @returns {import('./lib/count-reporter.mjs').TestReport}
 */
function readCounts(countsFile, exitCode) {
  try {
    return JSON.parse(readFileSync(countsFile, 'utf8'));
  } catch {
    // Vitest ended before its report: it found no tests, or crashed. Never report that as zero failures.
    return { passed: 0, failed: exitCode === 0 ? 0 : 1, skipped: 0, repeated: 0, slowest: [], failedFiles: [] };
  }
}
