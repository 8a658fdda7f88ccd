import { execFile, spawn } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';

import { whatToDo } from './what-to-do.mjs';

const IS_WINDOWS = process.platform === 'win32';

/**
 * @param {string} directory working directory
 * @param {string[]} args
 * @throws {Error} with a remedy, if known
 */
export async function npm(directory, args) {
  const child = spawn('npm', args, { cwd: directory, stdio: ['ignore', 2, 'pipe'], shell: IS_WINDOWS });
  let errors = '';
  child.stderr?.setEncoding('utf8').on('data', (text) => (errors += text));
  /** @type {number | null} */
  const code = await new Promise((settle, fail) => {
    child.on('error', (error) => fail(new Error(`npm does not start (${error.message})`)));
    child.on('close', settle);
  });
  if (code === 0) return;
  throw new Error(`npm ${args[0]} failed: ${whatToDo(errors) ?? `exit code ${code}\n${errors.trim()}`}`);
}

/** @param {string} folder a package @param {string} out @returns {Promise<string>} path of its tarball in `out` */
export async function npmPack(folder, out) {
  const { stdout } = await promisify(execFile)('npm', ['pack', folder, '--json', '--pack-destination', out], {
    cwd: out,
    maxBuffer: 16e6,
    shell: IS_WINDOWS,
  });
  const [packed] = Object.values(JSON.parse(stdout));
  return join(out, packed.filename);
}
