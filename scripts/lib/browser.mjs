import { execFile, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { promisify } from 'node:util';

/** Names another Chromium, Chrome or Edge. */
const BROWSER_VARIABLE = 'TRAINYARD_CHROMIUM';

const CANDIDATES = [
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
];

/** Debian's package, without what it merely recommends. The lock of another installation is waited for. */
const APT = ['-o', 'DPkg::Lock::Timeout=300', '-qq'];

/**
 * The browser that the pages are tested in.
 * @param {Record<string, string | undefined>} env
 * @returns {string | null} its path, null when there is none
 */
export function findBrowser(env) {
  const named = env[BROWSER_VARIABLE];
  return [...(named ? [named] : CANDIDATES)].find((path) => existsSync(path)) ?? null;
}

/**
 * Installs Debian's Chromium where that can be done without asking anybody.
 * @param {(line: string) => void} log
 * @throws {Error} that says what is missing; the caller goes on without the browser tests
 */
export async function installBrowser(log) {
  const how = `install Chromium by hand, or set ${BROWSER_VARIABLE} to the path of a Chromium or Chrome`;
  if (!(await isCommand('apt-get'))) throw new Error(`no Chromium was found, and there is no apt-get: ${how}`);
  if (process.getuid?.() !== 0) throw new Error(`no Chromium was found, and only root can run apt-get: ${how}`);
  log('installing Chromium for the tests of the pages (apt-get install chromium, about 350 MB on disk)');
  try {
    // The lists of a fresh machine are empty or old.
    await apt('update');
    await apt('install', '--yes', '--no-install-recommends', 'chromium');
  } catch (error) {
    throw new Error(`${error instanceof Error ? error.message : String(error)}: ${how}`, { cause: error });
  }
  if (findBrowser(process.env) === null) throw new Error(`apt-get brought no Chromium: ${how}`);
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
