/**
 * Puts faults of several processes into a copy of the sources, one at a time, and plays schedules until one finds it.
 *
 *   npm run lab -- prove-mutants                          all of `lab/schedules/schedule-mutants.mjs`
 *   npm run lab -- prove-mutants --only fencing        those with this in their names
 *   npm run lab -- prove-mutants --schedules 5 --seed 7  with other schedules than the default
 *
 * The exit code is 1 if one is not found.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

import { findPostgres } from '../../scripts/lib/postgres.mjs';
import { SCHEDULE_MUTANTS } from './schedule-mutants.mjs';
import { makeScratchCopy } from '../mutants/scratch-copy.mjs';

/** @typedef {import('./schedule-mutants.mjs').ScheduleMutant} ScheduleMutant */

const { values } = parseArgs({
  options: {
    only: { type: 'string', default: '' },
    schedules: { type: 'string' },
    seed: { type: 'string', default: '1' },
    root: { type: 'string', default: resolve(fileURLToPath(import.meta.url), '../../..') },
  },
});
const programs = findPostgres(process.env);
if (programs === null)
  throw new Error('PostgreSQL was not found. Set TRAINYARD_TEST_POSTGRES to the folder of its programs');
const scratch = makeScratchCopy(resolve(values.root));
/** @type {import('node:child_process').ChildProcess | null} */
let running = null;
process.on('exit', () => scratch.remove());
for (const signal of ['SIGINT', 'SIGTERM'])
  process.on(signal, () => {
    running?.kill('SIGINT');
    process.exit(130);
  });
let numLeft = 0;
for (const mutant of SCHEDULE_MUTANTS.filter(({ name }) => name.includes(values.only))) {
  const numSchedules = Number(values.schedules ?? mutant.within);
  const output = await play(mutant, numSchedules);
  const found = /^seed (\d+): .*\n((?: {2}.*\n?)+)/m.exec(output);
  if (found === null) numLeft++;
  const numNeeded = found === null ? null : Number(found[1]) - Number(values.seed) + 1;
  const verdict = numNeeded === null ? `NOT FOUND in ${numSchedules}` : `found in ${numNeeded}`;
  console.log(`${verdict.padEnd(16)}  ${mutant.name}`);
  if (found !== null) console.log(`${''.padEnd(16)}    ${found[2]?.split('\n')[0]?.trim().slice(0, 160)}`);
  else if (!output.includes('0 lost, 0 doubled')) console.log(output.slice(-1000));
}
process.exitCode = numLeft === 0 ? 0 : 1;

/** @param {ScheduleMutant} mutant @param {number} numSchedules @returns the result of the schedules */
async function play({ edits }, numSchedules) {
  /** @type {Map<string, string>} */
  const originals = new Map();
  for (const { file, from, to } of edits) {
    const path = join(scratch.root, file);
    const text = readFileSync(path, 'utf8');
    if (text.split(from).length !== 2) throw new Error(`${file} does not have this once: ${from}`);
    if (!originals.has(path)) originals.set(path, text);
    writeFileSync(
      path,
      text.replace(from, () => to),
    );
  }
  const main = join(scratch.root, 'packages/server/src/testing/schedules/main.ts');
  const options = ['--first', values.seed, '--schedules', String(numSchedules), '--stop-at-first'];
  const schedules = spawn(process.execPath, ['--conditions=@trainyard/source', main, ...options], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, TRAINYARD_TEST_POSTGRES: programs ?? '' },
  });
  running = schedules;
  let output = '';
  for (const stream of [schedules.stdout, schedules.stderr]) stream.on('data', (bytes) => (output += String(bytes)));
  await once(schedules, 'close');
  for (const [path, text] of originals) writeFileSync(path, text);
  return output;
}
