#!/usr/bin/env node
/**
 * The `trainyard` command, in a clone or installed from a tarball. Runs on Node.js 20.19 and later and starts
 * the service on the bundled version 24.
 */
import { spawn, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { constants } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const REQUIRED_NODE_MAJOR = 24;

const root = resolve(dirname(fileURLToPath(import.meta.url)), '../../..');
// A clone has TypeScript, which Node.js runs outside of node_modules; a tarball has compiled JavaScript.
const source = join(root, 'packages/cli/src/main.ts');
const isClone = existsSync(source);
const main = isClone ? source : join(root, 'packages/cli/src/main.js');

if (!isClone) await pruneInstall((line) => console.error(`trainyard: ${line}, once`));

// The command that needs the model fetches it.
if (
  isClone &&
  spawnSync(process.execPath, [join(root, 'scripts/bootstrap.mjs'), '--no-model'], { stdio: ['ignore', 2, 2] })
    .status !== 0
)
  process.exit(1);

const node = isNewEnough(process.versions.node) ? process.execPath : (bundledNode() ?? placedNode());
if (node === null) {
  console.error(
    `trainyard: Node.js ${REQUIRED_NODE_MAJOR} is required (this is ${process.version}), and the package "node" has no binary for this platform. Install Node.js ${REQUIRED_NODE_MAJOR}, or try again with access to the npm registry`,
  );
  process.exit(1);
}
// The package of Node.js keeps a second copy of the download.
if (!isClone && node !== process.execPath) await pruneInstall(() => {});
const child = spawn(node, ['--conditions=@trainyard/source', main, ...process.argv.slice(2)], { stdio: 'inherit' });
let isEnding = false;
// Ctrl-C reaches both processes, and the command decides how to end; other signals arrive only here.
process.on('SIGINT', () => (isEnding = true));
for (const signal of /** @type {const} */ (['SIGTERM', 'SIGHUP', 'SIGQUIT']))
  process.on(signal, () => {
    isEnding = true;
    child.kill(signal);
  });
// npx forwards SIGTERM only to its shell, which ends without forwarding it. A second signal would end a
// service at once.
if (process.env['npm_command'] === 'exec') {
  const { ppid } = process;
  const timer = setInterval(() => {
    if (process.ppid === ppid) return;
    clearInterval(timer);
    if (!isEnding) child.kill('SIGTERM');
  }, 500).unref();
}
child.on('exit', (code, signal) => {
  process.exitCode = code ?? 128 + constants.signals[/** @type {NodeJS.Signals} */ (signal)];
});

/**
 * Removes libraries for other platforms from an install, once: about 300 MB, which npm unpacks with the
 * packages that contain them.
 * @param {(line: string) => void} log
 */
async function pruneInstall(log) {
  const { removeForeignBinaries } = await import('../../../scripts/lib/foreign-binaries.mjs');
  const folders = new Set(
    ['onnxruntime-node', 'node'].flatMap((name) => {
      const folder = packageFolder(name);
      return folder === null ? [] : [resolve(folder, '../..')];
    }),
  );
  for (const folder of folders)
    // A folder of another owner keeps its libraries.
    await removeForeignBinaries(folder, log).catch(() => undefined);
}

/** @param {string} version */
function isNewEnough(version) {
  return Number(version.split('.')[0]) >= REQUIRED_NODE_MAJOR;
}

/** @returns {string | null} */
function bundledNode() {
  const folder = nodePackage();
  if (folder === null) return null;
  const path = join(folder, 'bin', process.platform === 'win32' ? 'node.exe' : 'node');
  return existsSync(path) ? path : null;
}

/**
 * Does the work of the package's install script: the tarball is installed without scripts, because another
 * package's would download GPU libraries.
 * @returns {string | null}
 */
function placedNode() {
  const folder = nodePackage();
  if (folder === null) return null;
  console.error(`trainyard: fetching Node.js ${REQUIRED_NODE_MAJOR} for this platform, once (120 MB)`);
  spawnSync(process.execPath, ['installArchSpecificPackage.js'], { cwd: folder, stdio: ['ignore', 2, 2] });
  return bundledNode();
}

/** @returns {string | null} folder of the package that contains Node.js */
function nodePackage() {
  return packageFolder('node');
}

/**
 * @param {string} name
 * @returns {string | null}
 */
function packageFolder(name) {
  try {
    return dirname(createRequire(join(root, 'package.json')).resolve(`${name}/package.json`));
  } catch {
    return null;
  }
}
