/**
 * Runs vLLM's own entrypoint tests against a service of this repository, and compares the failures with
 * `tests/vllm-suite/expected.json`.
 *
 *   npm run lab -- vllm-suite                     all of them, about half an hour; ends with a table
 *   npm run lab -- vllm-suite -k logprobs      arguments of pytest
 *   npm run lab -- vllm-suite --page           writes docs/lab/vllm-suite.md from the list, and runs nothing
 *   npm run lab -- vllm-suite --report FILE    keeps every outcome and message as JSON
 *
 * The exit code is 1 for an unlisted failure, and for a listed one that passes.
 */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { copyFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

import {
  createVirtualEnvironment,
  isVirtualEnvironmentCurrent,
  virtualEnvironment,
} from '../../scripts/lib/virtual-environment.mjs';
import { copyVllmTests, readJson, VLLM_VERSION } from './sources.mjs';
import { renderSuitePage } from './page.mjs';
import { ownService } from '../../scripts/own-service.ts';

const ROOT = resolve(fileURLToPath(import.meta.url), '../../..');
const SUITE = join(ROOT, 'tests/vllm-suite');
const CACHE = join(ROOT, '.cache/vllm-suite');
const MODEL = 'HuggingFaceTB/SmolLM2-135M-Instruct';
/** Limit of one test; longer ones count as failed. */
const TIMEOUT_SECONDS = 60;

/** @typedef {import('./page.mjs').Expected} Expected */

const chosen = process.argv.slice(2);
const expected = await readJson(join(SUITE, 'expected.json'));
const files = await readJson(join(SUITE, 'files.json'));
if (chosen.includes('--page')) {
  await writeFile(join(ROOT, 'docs/lab/vllm-suite.md'), renderSuitePage(VLLM_VERSION, files, expected));
  process.exit();
}
const keptReport = takeOption('--report');

const environment = virtualEnvironment(join(CACHE, 'venv'), join(SUITE, 'requirements.txt'));
if (!(await isVirtualEnvironmentCurrent(environment))) {
  console.log(`installing the requirements of vLLM's tests into ${environment.directory} (about 150 MB, a minute)`);
  await createVirtualEnvironment(environment, { pipOptions: ['--no-deps'] });
}
const tests = join(CACHE, 'suite');
const copied = { folder: tests, files: files.run };
await copyVllmTests(CACHE, environment.python, copied, (line) => console.log(line));

const folder = mkdtempSync(join(tmpdir(), 'trainyard-vllm-'));
/** One with the default limit of log-probabilities, one without: vLLM's servers differ in it, too. */
const services = await Promise.all(
  ['20', '-1'].map((maxLogprobs) => ownService({ environment: { TRAINYARD_MAX_LOGPROBS: maxLogprobs } })),
);
try {
  const report = join(folder, 'report.json');
  await runTests(report);
  if (keptReport !== null) await copyFile(report, keptReport);
  process.exitCode = compare(await readJson(report));
} finally {
  await Promise.all(services.map((service) => service.close()));
  rmSync(folder, { recursive: true, force: true });
}

/** @param {string} name @returns {string | null} its value; removes it from the arguments of pytest */
function takeOption(name) {
  const index = chosen.indexOf(name);
  return index === -1 ? null : resolve(String(chosen.splice(index, 2)[1]));
}

/** @param {string} report */
async function runTests(report) {
  const [plain, unlimited] = services;
  const options = ['-p', 'vllm_suite_plugin', '-p', 'no:cacheprovider', '-o', 'asyncio_mode=auto', '--tb=short', '-q'];
  const child = spawn(
    environment.python,
    ['-m', 'pytest', ...options, `--timeout=${TIMEOUT_SECONDS}`, 'tests/entrypoints', ...chosen],
    {
      cwd: tests,
      stdio: 'inherit',
      env: {
        ...process.env,
        PYTHONPATH: `${tests}:${SUITE}`,
        PYTHONDONTWRITEBYTECODE: '1',
        SUITE_URL: String(plain?.url).replace(/\/v1$/, ''),
        SUITE_KEY: String(plain?.apiKey),
        SUITE_UNLIMITED_URL: String(unlimited?.url).replace(/\/v1$/, ''),
        SUITE_UNLIMITED_KEY: String(unlimited?.apiKey),
        SUITE_MODEL: MODEL,
        SUITE_REPORT: report,
      },
    },
  );
  await new Promise((settle, fail) => {
    child.on('error', fail);
    child.on('close', settle);
  });
}

/**
 * @param {Record<string, [outcome: string, message: string]>} results by test
 * @returns {number} the exit code
 */
function compare(results) {
  /** @type {Map<string, number>} */
  const counts = new Map();
  const count = (/** @type {string} */ name) => counts.set(name, (counts.get(name) ?? 0) + 1);
  const faults = [];
  for (const [id, [outcome, message]] of Object.entries(results)) {
    /** @type {Expected | undefined} */
    const known = expected[id];
    count(outcome === 'failed' && known !== undefined ? `failed: ${known.class}` : outcome);
    if (outcome === 'failed' && known === undefined) faults.push(`not listed: ${id}: ${message}`);
    if (outcome === 'passed' && known !== undefined && !known.mayPass) faults.push(`listed, and passes: ${id}`);
  }
  const gone = chosen.length === 0 ? Object.keys(expected).filter((id) => !Object.hasOwn(results, id)) : [];
  faults.push(...gone.map((id) => `listed, and did not run: ${id}`));
  if (Object.keys(results).length === 0) faults.push('no test ran');
  console.log('\n| outcome | tests |\n|---|---|');
  for (const [name, number] of [...counts].sort(([a], [b]) => (a < b ? -1 : 1))) console.log(`| ${name} | ${number} |`);
  for (const fault of faults) console.log(fault);
  return faults.length === 0 ? 0 : 1;
}
