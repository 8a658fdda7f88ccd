import { createRequire } from 'node:module';
import { join } from 'node:path';

import { installPinned } from './pinned-packages.mjs';

/**
 * Tools that build the SDK's package and generate clients in the tests: 95 MB that the service does not need,
 * so they are installed on first use. `scripts/client-tools` pins them.
 *
 * @param {string} root the repository
 * @param {(line: string) => void} log
 * @returns {Promise<NodeJS.Require>} loads a tool by its name
 * @throws {Error} if npm cannot install them
 */
export async function clientTools(root, log) {
  const content = 'the tools that build and generate clients (95 MB, half a minute)';
  const directory = await installPinned(root, { folder: 'scripts/client-tools', content }, log);
  return createRequire(join(directory, 'package.json'));
}
