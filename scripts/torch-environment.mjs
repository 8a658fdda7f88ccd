/**
 * Creates .cache/venv-torch, in which PyTorch (on the CPU) makes the fixtures of the trainer's tests. Does
 * nothing if it exists.
 *
 *   node scripts/torch-environment.mjs      prints the path of its Python
 */
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

import { withFileLock } from './lib/file-lock.mjs';
import { createTorchEnvironment, hasTorchEnvironment, torchEnvironment } from './lib/torch-environment.mjs';

const ROOT = resolve(fileURLToPath(import.meta.url), '../..');

/** @param {string} line */
const log = (line) => void process.stderr.write(`torch-environment: ${line}\n`);

try {
  await withFileLock(
    join(ROOT, '.cache/torch-environment.lock'),
    async () => {
      if (await hasTorchEnvironment(ROOT)) return;
      log(`installing PyTorch into ${torchEnvironment(ROOT).directory} (1 GB to fetch, 2.2 GB on disk, two minutes)`);
      await createTorchEnvironment(ROOT);
    },
    { onWait: (owner) => log(`waiting for process ${owner}, which is installing it`) },
  );
  console.log(torchEnvironment(ROOT).python);
} catch (error) {
  log(error instanceof Error ? error.message : String(error));
  process.exitCode = 1;
}
