/**
 * All checks of a change other than its tests. All steps run, also after one has failed.
 *
 *   npm run check                    all steps
 *   npm run check -- lint types      some of them: format, prose, english, lint, arrows, rooms, types, dashboard, dead-code
 */
import { spawn } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';

import { findArrowViolations } from './lib/check-arrows.mjs';
import { checkEnglish } from './lib/check-english.mjs';
import { findRoomViolations } from './lib/check-rooms.mjs';
import { findWideProse } from './lib/prose-files.mjs';
import { PROSE_COLUMNS } from './lib/wrap-prose.mjs';

const TOOLS = resolve(fileURLToPath(import.meta.url), '../../node_modules');

/**
 * @typedef {{ isOk: boolean, output: string, note?: string }} StepResult the note is always printed
 * @type {Record<string, (root: string) => Promise<StepResult>>}
 */
const STEPS = {
  format: (root) => runTool(root, 'oxfmt/bin/oxfmt', ['--check', '.']),
  prose: async (root) =>
    resultOf(
      findWideProse(root).map(({ path }) => `${path}: prose wider than ${PROSE_COLUMNS} columns; run npm run format`),
    ),
  english: async (root) => {
    const { violations, summary } = checkEnglish(root);
    return { ...resultOf(violations), note: summary };
  },
  lint: (root) => runTool(root, 'oxlint/bin/oxlint', ['--deny-warnings', '.']),
  arrows: async (root) => resultOf(findArrowViolations(root)),
  rooms: async (root) => resultOf(findRoomViolations(root)),
  types: checkTypes,
  dashboard: checkDashboard,
  'dead-code': (root) => runTool(root, 'knip/bin/knip.js', ['--no-progress', '--no-config-hints']),
};

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { root: { type: 'string' } },
});
const unknown = positionals.filter((name) => !Object.hasOwn(STEPS, name));
if (unknown.length > 0) {
  console.error(`unknown steps: ${unknown.join(', ')}; the steps are ${Object.keys(STEPS).join(', ')}`);
  process.exit(2);
}
process.exitCode = await runSteps(resolve(values.root ?? join(TOOLS, '..')), positionals);

/** @param {string} root @param {string[]} chosen none means all @returns {Promise<number>} the exit code */
async function runSteps(root, chosen) {
  const failed = [];
  for (const [name, step] of Object.entries(STEPS)) {
    if (chosen.length > 0 && !chosen.includes(name)) continue;
    const startedMs = performance.now();
    const { isOk, output, note } = await step(root);
    const seconds = ((performance.now() - startedMs) / 1000).toFixed(1);
    if (!isOk) {
      failed.push(name);
      console.log(output.trim());
    }
    console.log(`${isOk ? 'ok  ' : 'FAIL'}  ${name.padEnd(10)} ${seconds} s`);
    if (note !== undefined) console.log(`      ${note}`);
  }
  console.log(failed.length === 0 ? 'check: all steps passed' : `check: failed in ${failed.join(', ')}`);
  return failed.length === 0 ? 0 : 1;
}

/** Checks that it builds, within its size limit. @param {string} root @returns {Promise<StepResult>} */
async function checkDashboard(root) {
  const path = join(root, 'packages/dashboard/build.mjs');
  if (!existsSync(path)) return resultOf([]);
  const { buildDashboard } = await import(pathToFileURL(path).href);
  try {
    await buildDashboard();
    return resultOf([]);
  } catch (error) {
    return resultOf([error instanceof Error ? error.message : String(error)]);
  }
}

/** @param {readonly string[]} violations @returns {StepResult} */
function resultOf(violations) {
  return { isOk: violations.length === 0, output: violations.join('\n') };
}

/** One compiler run for each tsconfig.json: the packages', then the root's (tests, examples, bench, scripts). @param {string} root */
async function checkTypes(root) {
  const packages = readdirSync(join(root, 'packages')).map((name) => join('packages', name, 'tsconfig.json'));
  const projects = [...packages.filter((path) => existsSync(join(root, path))), 'tsconfig.json'];
  const outputs = [];
  for (const project of projects) {
    const result = await runTool(root, 'typescript/bin/tsc', ['--noEmit', '--project', project]);
    if (!result.isOk) outputs.push(`${project}\n${result.output.trim()}`);
  }
  return { isOk: outputs.length === 0, output: outputs.join('\n') };
}

/**
 * @param {string} root @param {string} tool its script, below node_modules
 * @param {string[]} args
 * @returns {Promise<StepResult>}
 */
async function runTool(root, tool, args) {
  const child = spawn(process.execPath, [join(TOOLS, tool), ...args], { cwd: root, stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (text) => (output += text));
  /** @type {number | null} */
  const code = await new Promise((settle, fail) => {
    child.on('error', fail);
    child.on('close', settle);
  });
  return { isOk: code === 0, output };
}
