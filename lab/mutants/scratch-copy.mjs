import { cpSync, mkdirSync, mkdtempSync, readdirSync, readlinkSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';

/** Generated, fetched or stored files next to the sources. */
const LEFT_OUT = new Set([
  'node_modules',
  '.git',
  'dist',
  '.trainyard',
  '.trainyard-dev',
  '.venv',
  '.cache',
  '.art',
  'wandb',
]);

/** The workspace's own packages, which must come from the copy. */
const OWN_SCOPE = '@trainyard';

/**
 * A copy of a checkout in a temporary folder, where files may be broken. External packages are links to those
 * of the checkout.
 *
 * @param {string} root
 * @returns {{ root: string, remove: () => void }}
 */
export function makeScratchCopy(root) {
  const copy = mkdtempSync(join(tmpdir(), 'trainyard-scratch-'));
  cpSync(root, copy, { recursive: true, filter: (path) => path === root || !LEFT_OUT.has(basename(path)) });
  const [installed, linked] = [join(root, 'node_modules'), join(copy, 'node_modules')];
  mkdirSync(join(linked, OWN_SCOPE), { recursive: true });
  for (const name of readdirSync(installed)) {
    if (name !== OWN_SCOPE && !name.startsWith('.')) symlinkSync(join(installed, name), join(linked, name));
  }
  for (const name of readdirSync(join(installed, OWN_SCOPE))) {
    const folder = basename(readlinkSync(join(installed, OWN_SCOPE, name)));
    symlinkSync(join(copy, 'packages', folder), join(linked, OWN_SCOPE, name));
  }
  return { root: copy, remove: () => rmSync(copy, { recursive: true, force: true }) };
}
