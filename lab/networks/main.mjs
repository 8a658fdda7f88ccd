/**
 * Runs the processes of a service in network namespaces that act as machines, and disconnects them from each
 * other: `*.networks.test.ts`. Needs Linux and root. Installs further Debian packages (PostgreSQL, pgbouncer,
 * nftables, faketime); nginx is only unpacked.
 *
 *   npm run lab -- networks
 *   npm run lab -- networks jobs    arguments of Vitest
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

import { NGINX_FOLDER, prepareNetworks } from './networks.mjs';

const ROOT = resolve(fileURLToPath(import.meta.url), '../../..');
const log = (/** @type {string} */ line) => console.error(`networks-suite: ${line}`);

const missing = await prepareNetworks(log);
if (missing !== null) {
  console.log(`THE TESTS IN NETWORK NAMESPACES DID NOT RUN: ${missing}`);
  process.exit(1);
}
// A separate namespace: the tests are unreachable from this machine's network, and everything ends with the
// last process.
const inside = `ip link set lo up && exec "$@"`;
const command = [process.execPath, join(ROOT, 'scripts/test.mjs'), '--project', 'networks', ...process.argv.slice(2)];
const tests = spawn('unshare', ['--net', '--', 'sh', '-c', inside, 'sh', ...command], {
  stdio: 'inherit',
  env: { ...process.env, PATH: `${process.env['PATH']}:${NGINX_FOLDER}`, TRAINYARD_TEST_NETWORKS: 'own' },
});
const [code] = await once(tests, 'exit');
process.exitCode = code ?? 1;
