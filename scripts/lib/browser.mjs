import { existsSync } from 'node:fs';

import { installPackage } from './apt.mjs';

/** Path of another Chromium, Chrome or Edge. */
const BROWSER_VARIABLE = 'TRAINYARD_TEST_CHROMIUM';

const CANDIDATES = [
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
];

/**
 * Browser for the tests of pages.
 * @param {Record<string, string | undefined>} env
 * @returns {string | null} its path, null if there is none
 */
export function findBrowser(env) {
  const named = env[BROWSER_VARIABLE];
  return [...(named ? [named] : CANDIDATES)].find((path) => existsSync(path)) ?? null;
}

/**
 * Installs Debian's Chromium if that is possible without user input.
 * @param {(line: string) => void} log
 * @throws {Error} naming the missing part; the caller continues without the browser tests
 */
export async function installBrowser(log) {
  const how = `install Chromium manually, or set ${BROWSER_VARIABLE} to the path of Chromium or Chrome`;
  log('installing Chromium for the browser tests with apt-get install chromium (about 350 MB on disk)');
  await installPackage({ name: 'Chromium', packageName: 'chromium', how });
  if (findBrowser(process.env) === null) throw new Error(`apt-get did not install Chromium: ${how}`);
}
