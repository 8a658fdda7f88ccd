import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

import { unpackPackage } from '../../../scripts/lib/apt.mjs';
import { PEERS_FOLDER } from './model-files.ts';
import type { Log } from './peer.ts';

/** Debian 12 and Ubuntu 22.04, then those with 64-bit times. */
const PACKAGES = ['libtcmalloc-minimal4', 'libtcmalloc-minimal4t64'];
const FILE = /^libtcmalloc_minimal\.so\.\d+$/;
const FOLDER = join(PEERS_FOLDER, 'tcmalloc');

/**
 * tcmalloc, which vLLM's guide preloads: that of the system, or one unpacked from Debian's package.
 * @returns its path
 * @throws {Error} naming the package
 */
export async function ensureTcmalloc(log: Log): Promise<string> {
  const libraries = `usr/lib/${process.arch === 'arm64' ? 'aarch64' : 'x86_64'}-linux-gnu`;
  const find = (): string | undefined =>
    ['/', FOLDER].flatMap((root) => filesIn(join(root, libraries))).find((path) => FILE.test(path.split('/').at(-1)!));
  const found = find();
  if (found !== undefined) return found;
  log('fetching tcmalloc, which vLLM preloads');
  const how = `install ${PACKAGES[0]} (or ${PACKAGES[1]})`;
  let failure: unknown;
  for (const packageName of PACKAGES) {
    try {
      await unpackPackage({ name: 'tcmalloc', packageName, how, folder: FOLDER });
      const unpacked = find();
      if (unpacked !== undefined) return unpacked;
    } catch (error) {
      failure = error;
    }
  }
  throw failure ?? new Error(`tcmalloc was not found: ${how}`);
}

function filesIn(folder: string): string[] {
  return existsSync(folder) ? readdirSync(folder).map((name) => join(folder, name)) : [];
}
