import { execFile, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readdirSync } from 'node:fs';
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';

/** Oldest Python 3 that the pinned packages of most environments support. */
export const OLDEST_MINOR = 11;
const CANDIDATES = ['python3', 'python3.14', 'python3.13', 'python3.12', 'python3.11', 'python'];

/** Installs the packages of all test clients in 15 s of processor time; pip takes 180 s. */
const UV = 'uv==0.13.9';

/**
 * A Python virtual environment with the packages of one requirements file.
 * @typedef {{ directory: string, python: string, requirements: string, stamp: string }} VirtualEnvironment
 */

/**
 * @param {string} directory @param {string} requirements
 * @returns {VirtualEnvironment}
 */
export function virtualEnvironment(directory, requirements) {
  return {
    directory,
    python: join(directory, process.platform === 'win32' ? 'Scripts/python.exe' : 'bin/python'),
    requirements,
    stamp: join(directory, 'requirements.sha256'),
  };
}

/**
 * @param {VirtualEnvironment} environment
 * @returns {Promise<boolean>} true if the environment exists with the current requirements
 */
export async function isVirtualEnvironmentCurrent({ python, requirements, stamp }) {
  if (!existsSync(python)) return false;
  const [installed, wanted] = await Promise.all([readFile(stamp, 'utf8').catch(() => ''), digestOf(requirements)]);
  return installed === wanted;
}

/**
 * Creates the environment, with pip in it. The stamp is written last, so an incomplete one is rebuilt.
 * @param {VirtualEnvironment} environment
 * @param {{ minor?: number, pipOptions?: readonly string[], finish?: () => Promise<void> }} [how] `minor`:
 * oldest accepted Python 3 (11); `pipOptions`: of `uv pip install`; `finish` runs after the packages are installed
 * @throws {Error} naming the missing part
 */
export async function createVirtualEnvironment({ directory, python, requirements, stamp }, how = {}) {
  const base = await requirePython(how.minor ?? OLDEST_MINOR);
  await rm(directory, { recursive: true, force: true });
  await mkdir(dirname(directory), { recursive: true });
  const { uv, env } = await installUv(base, dirname(directory));
  await run(uv, ['venv', '--quiet', '--seed', '--python', base, directory], env);
  const options = ['--quiet', ...(how.pipOptions ?? []), '--requirement', requirements];
  await run(uv, ['pip', 'install', '--python', python, ...options], env);
  await how.finish?.();
  await writeFile(`${stamp}.new`, await digestOf(requirements));
  await rename(`${stamp}.new`, stamp);
}

/**
 * uv in an environment of its own below the folder, and variables with which it installs from where pip does.
 * Its cache is there too, on the same disk, so that environments share the files of their packages.
 * @param {string} base a Python @param {string} parent
 * @returns {Promise<{ uv: string, env: NodeJS.ProcessEnv }>}
 */
async function installUv(base, parent) {
  const { directory, python } = virtualEnvironment(join(parent, 'venv-uv'), '');
  const uv = join(dirname(python), process.platform === 'win32' ? 'uv.exe' : 'uv');
  const stamp = join(directory, UV);
  if (!existsSync(stamp)) {
    await rm(directory, { recursive: true, force: true });
    await run(base, ['-m', 'venv', directory]);
    await run(python, ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', UV]);
    await writeFile(stamp, '');
  }
  const { stdout } = await promisify(execFile)(python, ['-m', 'pip', 'config', 'list']);
  const index = process.env['PIP_INDEX_URL'] ?? /^\S+\.index-url='(.*)'$/m.exec(stdout)?.[1];
  const env = {
    UV_CACHE_DIR: join(parent, 'uv'),
    UV_SYSTEM_CERTS: '1',
    ...(index === undefined ? {} : { UV_DEFAULT_INDEX: index }),
    ...process.env,
  };
  return { uv, env };
}

/** @param {number} minor */
async function requirePython(minor) {
  const found = await findPython(minor);
  if (found !== null) return found;
  throw new Error(`found no Python 3.${minor} or newer (tried ${CANDIDATES.join(', ')} and pyenv)`);
}

/**
 * @param {number} minor oldest accepted Python 3
 * @returns {Promise<string | null>} its command or path, null if there is none
 */
export async function findPython(minor) {
  for (const candidate of [...CANDIDATES, ...pyenvPythons()]) {
    const version = await versionOf(candidate);
    if (version?.major === 3 && version.minor >= minor) return candidate;
  }
  return null;
}

/** Pythons of pyenv, which puts only selected ones on the PATH. */
function pyenvPythons() {
  const versions = join(process.env['PYENV_ROOT'] ?? join(homedir(), '.pyenv'), 'versions');
  if (!existsSync(versions)) return [];
  return readdirSync(versions)
    .filter((name) => name.startsWith('3.'))
    .map((name) => join(versions, name, 'bin/python'));
}

/** @param {string} python @returns {Promise<{ major: number, minor: number } | null>} */
async function versionOf(python) {
  try {
    const { stdout } = await promisify(execFile)(python, ['-c', 'import sys; print(*sys.version_info[:2])']);
    const [major = 0, minor = 0] = stdout.trim().split(' ').map(Number);
    return { major, minor };
  } catch {
    // Not installed under this name.
    return null;
  }
}

/** @param {string} path */
async function digestOf(path) {
  return createHash('sha256')
    .update(await readFile(path))
    .digest('hex');
}

/** @param {string} command @param {string[]} args @param {NodeJS.ProcessEnv} [env] */
export async function run(command, args, env = process.env) {
  const child = spawn(command, args, { stdio: ['ignore', 2, 2], env });
  /** @type {number | null} */
  const code = await new Promise((settle, fail) => {
    child.on('error', fail);
    child.on('close', settle);
  });
  if (code !== 0) throw new Error(`"${[command, ...args].join(' ')}" failed (exit code ${code})`);
}
