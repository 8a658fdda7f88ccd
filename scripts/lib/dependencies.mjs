import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import { npm } from './npm.mjs';

/** Lowest major version of Node.js for our commands: type stripping without a flag, `node:sqlite`, zstd. */
const REQUIRED_NODE_MAJOR = 24;

/**
 * Compares node_modules with package-lock.json, by npm's record of installed packages in
 * node_modules/.package-lock.json.
 *
 * @param {{ packages?: Record<string, LockedPackage> }} lock
 * @param {{ packages?: Record<string, LockedPackage> } | null} installed null if nothing was installed
 * @param {{ withDev?: boolean }} [options] `withDev: false` checks only packages that a running service needs
 * @returns {boolean} true if all packages have the locked version; optional ones may be absent (they are for
 * other platforms)
 * @typedef {{ version?: string, optional?: boolean, dev?: boolean, devOptional?: boolean, link?: boolean,
 * resolved?: string }} LockedPackage
 */
export function isInstalled(lock, installed, { withDev = true } = {}) {
  if (installed?.packages === undefined) return false;
  for (const [path, locked] of Object.entries(lock.packages ?? {})) {
    if (!path.startsWith('node_modules/') && !path.includes('/node_modules/')) continue;
    if (locked.dev && !withDev) continue;
    const found = installed.packages[path];
    if (found === undefined ? !locked.optional && !locked.devOptional : found.version !== locked.version) return false;
  }
  return true;
}

/**
 * @param {string} root the repository
 * @param {{ withDev: boolean }} options
 * @returns {Promise<boolean>}
 */
export async function hasDependencies(root, options) {
  const lock = await readJson(join(root, 'package-lock.json'));
  if (lock === null) throw new Error(`${root} has no readable package-lock.json`);
  return isInstalled(lock, await readJson(join(root, 'node_modules/.package-lock.json')), options);
}

/**
 * Installs the packages of package-lock.json, without their install scripts, several of which would download binaries.
 *
 * Not `npm ci`: it refuses a lock file without optional binaries for other platforms, which npm writes with a
 * registry mirror that lacks them. `npm install --no-save` installs the same versions with the same integrity
 * hashes, writes no lock file, and the check after it is as strict.
 *
 * @param {string} root
 * @param {{ withDev: boolean }} options false omits packages that only tests and checks need, unless they are
 * already installed
 */
export async function installDependencies(root, { withDev }) {
  const omitted = withDev || existsSync(join(root, 'node_modules/vitest')) ? [] : ['--omit=dev'];
  await npm(root, ['install', '--no-save', '--ignore-scripts', '--loglevel=error', ...omitted]);
  if (await hasDependencies(root, { withDev })) return;
  throw new Error(
    'npm installed versions that differ from package-lock.json. Run "npm install" and commit the new lock file',
  );
}

/**
 * @param {string} root @returns {Promise<string | null>} version of the Node.js that npm scripts run on, null
 * if the package has none
 */
export async function bundledNodeVersion(root) {
  try {
    const { stdout } = await promisify(execFile)(join(root, 'node_modules/.bin/node'), ['--version']);
    return stdout.trim();
  } catch {
    // Missing, or for another platform: the caller installs it.
    return null;
  }
}

/** @param {string | null} version as `node --version` prints it */
export function isNewEnough(version) {
  return version !== null && Number(/^v(\d+)\./.exec(version)?.[1]) >= REQUIRED_NODE_MAJOR;
}

/**
 * Places Node.js 24 in node_modules/.bin/node: the `node` package's install script fetches the binary for this platform from the npm registry.
 *
 * @param {string} root
 * @param {(line: string) => void} log
 */
export async function installNode(root, log) {
  await npm(root, ['rebuild', 'node', '--ignore-scripts=false', '--loglevel=error']).catch((error) =>
    log(error.message),
  );
  const version = await bundledNodeVersion(root);
  if (isNewEnough(version)) return log(`node_modules/.bin/node is ${version}`);
  throw new Error(
    [
      `Node.js ${REQUIRED_NODE_MAJOR} is required (this is ${process.version}), and the npm package "node" has no binary for ${process.platform}-${process.arch}.`,
      `Run "npm rebuild node --ignore-scripts=false" with access to the npm registry, or install Node.js ${REQUIRED_NODE_MAJOR}.`,
    ].join('\n'),
  );
}

/** @param {string} path */
async function readJson(path) {
  try {
    return JSON.parse(await readFile(path, 'utf8'));
  } catch {
    // Missing or truncated: the caller treats both as absent.
    return null;
  }
}
