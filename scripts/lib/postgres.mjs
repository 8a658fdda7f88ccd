import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

import { installPackage } from './apt.mjs';

/** Variable for another folder with `initdb` and `postgres`, version 15 or later. */
const POSTGRES_VARIABLE = 'TRAINYARD_TEST_POSTGRES';

/** Debian's parent folder of versions. */
const DEBIAN = '/usr/lib/postgresql';

/**
 * Database server for the tests of the store.
 * @param {Record<string, string | undefined>} env
 * @returns {string | null} the folder of its programs, null if there is none
 */
export function findPostgres(env) {
  const named = env[POSTGRES_VARIABLE];
  const versions = existsSync(DEBIAN)
    ? readdirSync(DEBIAN).toSorted((first, second) => Number(second) - Number(first))
    : [];
  const folders = named ? [named] : versions.map((version) => join(DEBIAN, version, 'bin'));
  return folders.find((folder) => existsSync(join(folder, 'postgres'))) ?? null;
}

/**
 * Installs Debian's PostgreSQL if that is possible without user input. The tests start and end their own server.
 * @param {(line: string) => void} log
 * @throws {Error} naming the missing part; the caller continues without these tests
 */
export async function installPostgres(log) {
  const how = `install PostgreSQL manually, or set ${POSTGRES_VARIABLE} to the folder of its programs`;
  log('installing PostgreSQL for the store tests with apt-get install postgresql (about 60 MB on disk)');
  await installPackage({ name: 'PostgreSQL', packageName: 'postgresql', how });
  if (findPostgres(process.env) === null) throw new Error(`apt-get did not install PostgreSQL: ${how}`);
}
