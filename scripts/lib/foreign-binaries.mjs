import { existsSync, readdirSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';

/**
 * Libraries of other platforms inside packages, and similar: about 330 MB. npm omits packages for other
 * platforms, but not folders inside a package.
 *
 * A folder is removed only if the one for this platform is next to it, so that packages with another layout
 * lose nothing.
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
    // Source of its install script's binary: headers and documents.
    ...(existsSync(join(node, 'bin/node')) ? [join(node, 'node_modules')].filter((path) => existsSync(path)) : []),
    ...foldersIn(onnx).flatMap((abi) => othersOf(join(onnx, abi), platform)),
    ...foldersIn(onnx).flatMap((abi) => othersOf(join(onnx, abi, platform), arch)),
    ...othersOf(llama, `${LLAMA_NAMES[platform] ?? platform}-${arch}`, 'bins'),
  ];
}

/** Platform names in llama.cpp packages that differ from Node.js. @type {Readonly<Record<string, string>>} */
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
 * @param {string} own this machine's folder, or the prefix of its name
 * @param {string} [part] part of the others to remove; default: all
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
