/**
 * The tracker on a real server: `npm run lab -- mlflow` installs it, and sets `TRAINYARD_TEST_MLFLOW` to its
 * address.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

import { freePort } from '@trainyard/store/testing';

import { mlflowHarness } from '../../testing/mlflow-harness.ts';
import { runTrackerSuite } from '../../testing/run-tracker.suite.ts';

runTrackerSuite('MLflow', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'mlflow-'));
  const url = new URL(`http://127.0.0.1:${await freePort()}`);
  const server = spawn(
    process.env['TRAINYARD_TEST_MLFLOW'] ?? 'mlflow',
    `server --host 127.0.0.1 --port ${url.port} --workers 1`
      .split(' ')
      .concat('--backend-store-uri', `sqlite:///${join(directory, 'mlflow.db')}`)
      .concat('--artifacts-destination', join(directory, 'artifacts')),
    { stdio: 'ignore', detached: true },
  );
  const ended = once(server, 'exit');
  const isUp = async () => (await fetch(new URL('/health', url)).catch(() => null))?.ok === true;
  while (!(await isUp())) {
    if (server.exitCode !== null) throw new Error(`mlflow server ended with ${server.exitCode}`);
    await delay(200);
  }
  return mlflowHarness(url, async () => {
    // Its workers are separate processes.
    process.kill(-server.pid!, 'SIGTERM');
    await ended;
    rmSync(directory, { recursive: true, force: true });
  });
});
