import { execFile, spawn } from 'node:child_process';
import { promisify } from 'node:util';

/** The lock of another installation is waited for. */
const APT = ['-o', 'DPkg::Lock::Timeout=300', '-qq'];

/**
 * Installs a package of Debian, without what it merely recommends, where that can be done without asking anybody.
 * @param {{ name: string, packageName: string, how: string }} what `how`: what to do by hand, for the message of an error
 * @throws {Error} that says what is missing
 */
export async function installPackage({ name, packageName, how }) {
  if (!(await isCommand('apt-get'))) throw new Error(`no ${name} was found, and there is no apt-get: ${how}`);
  if (process.getuid?.() !== 0) throw new Error(`no ${name} was found, and only root can run apt-get: ${how}`);
  try {
    // The lists of a fresh machine are empty or old.
    await apt('update');
    await apt('install', '--yes', '--no-install-recommends', packageName);
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

/** @param {string} action @param {string[]} args */
async function apt(action, ...args) {
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  const child = spawn('apt-get', [...APT, action, ...args], { env, stdio: ['ignore', 'ignore', 'pipe'] });
  let errors = '';
  child.stderr.on('data', (chunk) => (errors = (errors + chunk).slice(-2_000)));
  /** @type {number | null} */
  const code = await new Promise((settle, fail) => {
    child.on('error', fail);
    child.on('close', settle);
  });
  if (code !== 0) throw new Error(`apt-get ${action} failed (${errors.trim().split('\n').at(-1)})`);
}
