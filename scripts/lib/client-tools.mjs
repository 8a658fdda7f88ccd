import { createHash } from 'node:crypto';
import { copyFile, mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';

import { withFileLock } from './file-lock.mjs';
import { npm } from './npm.mjs';

/**
 * Tools that build the SDK's package and generate clients in the tests: 95 MB that the service has no use for, so they are installed where and when
 * they are wanted. `scripts/client-tools` pins them.
 *
 * @param {string} root the repository
 * @param {(line: string) => void} log
 * @returns {Promise<NodeJS.Require>} loads a tool by its name
 * @throws {Error} when npm cannot install them
 */
export async function clientTools(root, log) {
  const wanted = join(root, 'scripts/client-tools');
  const directory = join(root, '.cache/client-tools');
  const stamp = join(directory, 'package-lock.sha256');
  const digest = createHash('sha256')
    .update(await readFile(join(wanted, 'package-lock.json')))
    .digest('hex');
  const isInstalled = async () => (await readFile(stamp, 'utf8').catch(() => '')) === digest;
  if (!(await isInstalled())) {
    const onWait = (/** @type {string} */ owner) => log(`process ${owner} is installing the client tools: waiting`);
    await withFileLock(
      join(root, '.cache/client-tools.lock'),
      async () => {
        if (await isInstalled()) return;
        log(`installing what builds and generates clients into ${directory} (95 MB, half a minute)`);
        await rm(directory, { recursive: true, force: true });
        await mkdir(directory, { recursive: true });
        for (const name of ['package.json', 'package-lock.json'])
          await copyFile(join(wanted, name), join(directory, name));
        // Not `npm ci`: see dependencies.mjs.
        await npm(directory, [
          'install',
          '--no-save',
          '--ignore-scripts',
          '--no-audit',
          '--no-fund',
          '--loglevel=error',
        ]);
        // Last, so that a half-made folder is made anew.
        await writeFile(`${stamp}.new`, digest);
        await rename(`${stamp}.new`, stamp);
      },
      { onWait },
    );
  }
  return createRequire(join(directory, 'package.json'));
}
