import { execFile, spawn } from 'node:child_process';
import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

/** Waits for the lock of another installation. */
const APT = ['-o', 'DPkg::Lock::Timeout=300', '-qq'];

/**
 * Installs a package of Debian, without recommended packages, if that is possible without user input.
 * @param {{ name: string, packageName: string, how: string }} options `how`: manual steps, for the error message
 * @throws {Error} naming the missing part
 */
export async function installPackage({ name, packageName, how }) {
  await withLists({ name, how }, () => apt(['install', '--yes', '--no-install-recommends', packageName]));
}

/**
 * Unpacks the files of a package into a folder without installing them: installing a package with a server
 * would start it, open to the machine's network.
 * @param {{ name: string, packageName: string, how: string, folder: string }} options as for {@link
 * installPackage}; `folder` is created
 * @throws {Error} naming the missing part
 */
export async function unpackPackage({ name, packageName, how, folder }) {
  await withLists({ name, how }, async () => {
    const downloads = await mkdtemp(join(tmpdir(), 'trainyard-apt-'));
    try {
      // As root, because apt's own user may not write there.
      await apt(['-o', 'APT::Sandbox::User=root', 'download', packageName], downloads);
      const [file = ''] = await readdir(downloads);
      await mkdir(folder, { recursive: true });
      await promisify(execFile)('dpkg-deb', ['--extract', join(downloads, file), folder]);
    } finally {
      await rm(downloads, { recursive: true });
    }
  });
}

/** @param {{ name: string, how: string }} options @param {() => Promise<void>} work */
async function withLists({ name, how }, work) {
  if (!(await isCommand('apt-get'))) throw new Error(`${name} was not found, and apt-get is missing: ${how}`);
  if (process.getuid?.() !== 0) throw new Error(`${name} was not found, and only root can run apt-get: ${how}`);
  try {
    // The package lists of a fresh machine are empty or old.
    await apt(['update']);
    await work();
  } catch (error) {
    throw new Error(`${error instanceof Error ? error.message : String(error)}: ${how}`, { cause: error });
  }
}

/** @param {string} name */
async function isCommand(name) {
  try {
    await promisify(execFile)(name, ['--version']);
    return true;
  } catch {
    return false;
  }
}

/** @param {string[]} args @param {string} [cwd] */
async function apt(args, cwd) {
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  const child = spawn('apt-get', [...APT, ...args], { env, cwd, stdio: ['ignore', 'ignore', 'pipe'] });
  let errors = '';
  child.stderr.on('data', (chunk) => (errors = (errors + chunk).slice(-2_000)));
  /** @type {number | null} */
  const code = await new Promise((settle, fail) => {
    child.on('error', fail);
    child.on('close', settle);
  });
  if (code !== 0) throw new Error(`apt-get ${args.join(' ')} failed (${errors.trim().split('\n').at(-1)})`);
}
