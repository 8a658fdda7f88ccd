import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

import { installPackage, unpackPackage } from '../../scripts/lib/apt.mjs';
import { findPostgres, installPostgres } from '../../scripts/lib/postgres.mjs';

/** Programs of the tests, with their Debian packages. */
const PROGRAMS = [
  ['ip', 'iproute2'],
  ['nft', 'nftables'],
  ['pgbouncer', 'pgbouncer'],
  ['faketime', 'faketime'],
  ['openssl', 'openssl'],
];

const UNPACKED = resolve(fileURLToPath(import.meta.url), '../../../.cache/nginx');
/** Folder of nginx, if the machine has none of its own: for the end of `PATH`. */
export const NGINX_FOLDER = join(UNPACKED, 'usr/sbin');

/**
 * Prepares this machine for tests in network namespaces, as far as possible without user input.
 * @param {(line: string) => void} log
 * @returns {Promise<string | null>} the missing part and its remedy; null if nothing is missing
 */
export async function prepareNetworks(log) {
  const { status, stderr, error } = spawnSync('unshare', ['--net', 'true'], { encoding: 'utf8' });
  if (error !== undefined || status !== 0)
    return `this process may not create network namespaces (${error?.message ?? stderr.trim()}): run as root on Linux; in a container, add the capabilities SYS_ADMIN and NET_ADMIN`;
  try {
    for (const [program = '', packageName = ''] of PROGRAMS) {
      if (isThere(program)) continue;
      log(`installing ${program} (apt-get install ${packageName})`);
      await installPackage({ name: program, packageName, how: `install ${program} manually` });
    }
    if (!isThere('nginx') && !existsSync(join(NGINX_FOLDER, 'nginx'))) {
      log(`unpacking nginx into ${UNPACKED} (apt-get download nginx)`);
      const how = 'install nginx manually';
      await unpackPackage({ name: 'nginx', packageName: 'nginx', how, folder: UNPACKED });
    }
    if (findPostgres(process.env) === null) await installPostgres(log);
  } catch (fault) {
    return fault instanceof Error ? fault.message : String(fault);
  }
  return null;
}

/** @param {string} program */
function isThere(program) {
  return spawnSync('sh', ['-c', 'command -v "$1"', 'sh', program]).status === 0;
}
