import { createHash } from 'node:crypto';
import { copyFile, mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';

import { withFileLock } from './file-lock.mjs';
import { npm } from './npm.mjs';

/**
 * Installs packages that only some tests need, separately from the service's, in the versions of
 * `FOLDER/package-lock.json`, into `.cache/NAME`, its last part.
 *
 * @param {string} root the repository
 * @param {{ folder: string, content: string }} packages folder below the root; content and size, for the log
 * @param {(line: string) => void} log
 * @returns {Promise<string>} the folder that has their `node_modules`
 * @throws {Error} if npm cannot install them
 */
export async function installPinned(root, { folder, content }, log) {
  const wanted = join(root, folder);
  const name = basename(folder);
  const directory = join(root, '.cache', name);
  const stamp = join(directory, 'package-lock.sha256');
  const digest = createHash('sha256')
    .update(await readFile(join(wanted, 'package-lock.json')))
    .digest('hex');
  const isInstalled = async () => (await readFile(stamp, 'utf8').catch(() => '')) === digest;
  if (await isInstalled()) return directory;
  const onWait = (/** @type {string} */ owner) => log(`waiting for process ${owner}, which is installing ${content}`);
  await withFileLock(
    join(root, `.cache/${name}.lock`),
    async () => {
      if (await isInstalled()) return;
      log(`installing ${content} into ${directory}`);
      await rm(directory, { recursive: true, force: true });
      await mkdir(directory, { recursive: true });
      for (const file of ['package.json', 'package-lock.json'])
        await copyFile(join(wanted, file), join(directory, file));
      // Not `npm ci`: see dependencies.mjs.
      await npm(directory, ['install', '--no-save', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error']);
      // Last, so that an incomplete folder is rebuilt.
      await writeFile(`${stamp}.new`, digest);
      await rename(`${stamp}.new`, stamp);
    },
    { onWait },
  );
  return directory;
}
