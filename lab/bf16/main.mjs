/**
 * Runs the tests of bf16 computing, on a processor with bf16: `npm run bf16` has fetched the library.
 *
 *   npm run lab -- bf16
 */
import { spawn } from 'node:child_process';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

import { libraryDirectory, ONEDNN } from '../../scripts/lib/model-source.mjs';

const ROOT = resolve(fileURLToPath(import.meta.url), '../../..');
const library = process.env['TRAINYARD_ONEDNN'] ?? join(libraryDirectory(process.env, ROOT), ONEDNN.fileName);
const tests = spawn(process.execPath, [join(ROOT, 'scripts/test.mjs'), '--project', 'bf16', ...process.argv.slice(2)], {
  stdio: 'inherit',
  env: { ...process.env, TRAINYARD_TEST_BF16_LIBRARY: library },
});
tests.on('close', (code) => {
  process.exitCode = code ?? 1;
});
