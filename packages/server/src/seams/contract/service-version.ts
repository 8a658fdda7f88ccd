import { readFileSync } from 'node:fs';

/** The version of this package, which all packages share. */
export const SERVICE_VERSION: string = (
  JSON.parse(readFileSync(new URL('../../../package.json', import.meta.url), 'utf8')) as { version: string }
).version;
