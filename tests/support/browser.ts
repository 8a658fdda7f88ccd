import { chromium, type Browser } from 'playwright-core';

import { findBrowser } from '../../scripts/lib/browser.mjs';

/** True if there is a browser. CI must have one. */
export function hasBrowser(): boolean {
  const found = findBrowser(process.env) !== null;
  if (!found && process.env['CI'] !== undefined)
    throw new Error('CI must open the pages in a browser: "node scripts/bootstrap.mjs --browser" shows the reason');
  return found;
}

/** Opens a headless Chromium that only reaches this machine. */
export async function openBrowser(): Promise<Browser> {
  return await chromium.launch({
    executablePath: findBrowser(process.env)!,
    args: [
      // Test machines and containers run as root, where the sandbox does not start.
      '--no-sandbox',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-default-apps',
      '--disable-domain-reliability',
      '--disable-sync',
      '--metrics-recording-only',
      '--no-first-run',
      '--no-pings',
      '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1',
    ],
  });
}
