import { existsSync, readdirSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';

/**
 * Libraries of other platforms, and the like, that packages bring whole: about 330 MB. npm leaves out packages for other platforms, but not folders inside a package.
 *
 * A folder is removed only when the one for this platform lies beside it, so that a package which is laid out differently loses nothing.
 *
 * @param {string} root the repository
 * @param {{ platform: string, arch: string }} [machine]
 * @returns {string[]} paths that this machine does not need
 */
export function findForeignBinaries(root, { platform, arch } = process) {
  const onnx = join(root, 'node_modules/onnxruntime-node/bin');
  const llama = join(root, 'node_modules/@node-llama-cpp');
  const node = join(root, 'node_modules/node');
  return [
    // What its install script fetched the binary from: headers and documents.
    ...(existsSync(join(node, 'bin/node')) ? [join(node, 'node_modules')].filter((path) => existsSync(path)) : []),
    ...foldersIn(onnx).flatMap((abi) => othersOf(join(onnx, abi), platform)),
    ...foldersIn(onnx).flatMap((abi) => othersOf(join(onnx, abi, platform), arch)),
    ...othersOf(llama, `${LLAMA_NAMES[platform] ?? platform}-${arch}`, 'bins'),
  ];
}

/** How the packages of llama.cpp call what Node.js calls otherwise. @type {Readonly<Record<string, string>>} */
const LLAMA_NAMES = { darwin: 'mac', win32: 'win' };

/**
 * @param {string} root
 * @param {(line: string) => void} log
 */
export async function removeForeignBinaries(root, log) {
  const paths = findForeignBinaries(root);
  if (paths.length === 0) return;
  log('removing libraries of other platforms');
  for (const path of paths) await rm(path, { recursive: true, force: true });
}

/**
 * @param {string} folder
 * @param {string} own the folder of this machine, or what its name begins with
 * @param {string} [part] what is removed of the others; by default all of them
 */
function othersOf(folder, own, part = '') {
  const names = foldersIn(folder);
  if (!names.some((name) => name.startsWith(own))) return [];
  const others = names.filter((name) => !name.startsWith(own)).map((name) => join(folder, name, part));
  return others.filter((path) => existsSync(path));
}

/** @param {string} folder */
function foldersIn(folder) {
  if (!existsSync(folder)) return [];
  const entries = readdirSync(folder, { withFileTypes: true });
  return entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
}
