/**
 * Sets up the requirements of a program, then runs it. Runs on Node.js 20.19 and later, without dependencies.
 *
 *   npm run bench -- gateway --requests 100
 *   npm run lab                               lists the programs of `lab`
 */
import { spawn } from 'node:child_process';
import { delimiter, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

import { COMMANDS } from './lib/commands.mjs';

const ROOT = resolve(fileURLToPath(import.meta.url), '../..');

const [command = '', ...rest] = process.argv.slice(2);
const { standard, programs } = COMMANDS[command] ?? { programs: {} };
const isNamed = rest[0] !== undefined && !rest[0].startsWith('-');
const name = isNamed ? rest[0] : standard;
const program = name === undefined || !Object.hasOwn(programs, name) ? undefined : programs[name];
if (program === undefined) {
  if (name !== undefined) console.error(`npm run ${command}: unknown program "${name}"`);
  console.error(`Usage: npm run ${command} -- NAME, with NAME one of ${Object.keys(programs).join(', ')}`);
  process.exit(2);
}
const args = isNamed ? rest.slice(1) : rest;
const code = await run([join(ROOT, 'scripts/bootstrap.mjs'), ...program.setup]);
// The program's own Node.js may have been installed by the set-up.
process.exitCode = code === 0 ? await run(['--conditions=@trainyard/source', join(ROOT, program.file), ...args]) : code;

/** @param {readonly string[]} argv of Node.js @returns {Promise<number>} its exit code */
async function run(argv) {
  const path = [join(ROOT, 'node_modules/.bin'), process.env['PATH'] ?? ''].join(delimiter);
  const child = spawn('node', argv, { stdio: 'inherit', env: { ...process.env, PATH: path } });
  // A terminal sends Ctrl-C to both; others signal this process alone.
  const ignore = () => {};
  const forward = () => void child.kill('SIGTERM');
  process.on('SIGINT', ignore);
  process.on('SIGTERM', forward);
  try {
    return await new Promise((settle, fail) => {
      child.on('error', fail);
      child.on('close', (status, signal) =>
        settle(status ?? (signal === 'SIGTERM' ? 143 : signal === 'SIGINT' ? 130 : 1)),
      );
    });
  } finally {
    process.off('SIGINT', ignore);
    process.off('SIGTERM', forward);
  }
}
