/**
 * Plays random schedules of a service of several processes on a PostgreSQL server of its own, and checks the results.
 *
 *   npm run lab -- prove                            1,000 schedules
 *   npm run lab -- prove --schedules 50          fewer
 *   npm run lab -- prove --seed 4711 --verbose   repeats that one, with the logs of its processes
 *   npm run lab -- prove --jobs 2                two at a time
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

import { findPostgres } from '../../scripts/lib/postgres.mjs';

const ROOT = resolve(fileURLToPath(import.meta.url), '../../..');
const programs = findPostgres(process.env);
if (programs === null)
  throw new Error('PostgreSQL was not found. Set TRAINYARD_TEST_POSTGRES to the folder of its programs');
const main = join(ROOT, 'packages/server/src/testing/schedules/main.ts');
const schedules = spawn(process.execPath, ['--conditions=@trainyard/source', main, ...process.argv.slice(2)], {
  stdio: 'inherit',
  env: { ...process.env, TRAINYARD_TEST_POSTGRES: programs },
});
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => schedules.kill('SIGINT'));
const [code] = await once(schedules, 'exit');
process.exitCode = code ?? 1;
