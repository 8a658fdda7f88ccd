import { execFile, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';

/** What the packages in tests/conformance/requirements.txt ask for. */
const REQUIRED_PYTHON = { major: 3, minor: 11 };
const CANDIDATES = ['python3', 'python3.13', 'python3.12', 'python3.11', 'python'];

/**
 * The virtual environment of the Python conformance tests.
 * @param {string} root the repository
 */
export function pythonEnvironment(root) {
  const directory = join(root, '.cache/venv-art');
  return {
    directory,
    python: join(directory, process.platform === 'win32' ? 'Scripts/python.exe' : 'bin/python'),
    requirements: join(root, 'tests/conformance/requirements.txt'),
    stamp: join(directory, 'requirements.sha256'),
  };
}

/** @param {string} root @returns {Promise<boolean>} whether the environment is there and of the current requirements */
export async function hasPythonEnvironment(root) {
  const { python, requirements, stamp } = pythonEnvironment(root);
  if (!existsSync(python)) return false;
  const [installed, wanted] = await Promise.all([readFile(stamp, 'utf8').catch(() => ''), digestOf(requirements)]);
  return installed === wanted;
}

/**
 * Creates the environment. A half-made one is made anew: the stamp is written last.
 * @param {string} root
 * @param {(line: string) => void} log
 * @throws {Error} that says what is missing; the caller goes on without these tests
 */
export async function createPythonEnvironment(root, log) {
  const { directory, python, requirements, stamp } = pythonEnvironment(root);
  const base = await findPython();
  log(`installing the Python clients of the conformance tests into ${directory} (about 600 MB, a minute)`);
  await rm(directory, { recursive: true, force: true });
  await mkdir(dirname(directory), { recursive: true });
  await run(base, ['-m', 'venv', directory]);
  await run(python, ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '--requirement', requirements]);
  await writeFile(`${stamp}.new`, await digestOf(requirements));
  await rename(`${stamp}.new`, stamp);
}

async function findPython() {
  for (const candidate of CANDIDATES) {
    const version = await versionOf(candidate);
    if (version?.major === REQUIRED_PYTHON.major && version.minor >= REQUIRED_PYTHON.minor) return candidate;
  }
  throw new Error(
    `no Python ${REQUIRED_PYTHON.major}.${REQUIRED_PYTHON.minor} or newer was found (looked for ${CANDIDATES.join(', ')})`,
  );
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

/** @param {string} command @param {string[]} args */
async function run(command, args) {
  const child = spawn(command, args, { stdio: ['ignore', 2, 2] });
  /** @type {number | null} */
  const code = await new Promise((settle, fail) => {
    child.on('error', fail);
    child.on('close', settle);
  });
  if (code !== 0) throw new Error(`"${[command, ...args].join(' ')}" failed (exit code ${code})`);
}
