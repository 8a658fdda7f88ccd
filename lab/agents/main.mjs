/**
 * Installs Codex and Claude Code (660 MB) into .cache/agents and plays whole sessions with them, including
 * compactions, on a service with a scripted model.
 *
 *   npm run lab -- agents
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

import { installPinned } from '../../scripts/lib/pinned-packages.mjs';

const ROOT = resolve(fileURLToPath(import.meta.url), '../../..');
const content = 'Codex and Claude Code (660 MB)';
const directory = await installPinned(ROOT, { folder: 'lab/agents', content }, (line) =>
  console.error(`agents-suite: ${line}`),
);
const tests = spawn(process.execPath, [join(ROOT, 'scripts/test.mjs'), '--project', 'agents'], {
  stdio: 'inherit',
  env: { ...process.env, TRAINYARD_TEST_AGENTS: directory },
});
const [code] = await once(tests, 'exit');
process.exitCode = code ?? 1;
