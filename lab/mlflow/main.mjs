/**
 * Installs an MLflow server (850 MB) into .cache/venv-mlflow and runs the suite of trackers on it. A start of
 * the server takes 10 s, and minutes
 * on a busy machine, so `npm run test:all` omits it.
 *
 *   npm run lab -- mlflow
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

import { withFileLock } from '../../scripts/lib/file-lock.mjs';
import {
  createVirtualEnvironment,
  isVirtualEnvironmentCurrent,
  virtualEnvironment,
} from '../../scripts/lib/virtual-environment.mjs';

const ROOT = resolve(fileURLToPath(import.meta.url), '../../..');
const environment = virtualEnvironment(join(ROOT, '.cache/venv-mlflow'), join(ROOT, 'lab/mlflow/requirements.txt'));

await withFileLock(join(ROOT, '.cache/mlflow.lock'), async () => {
  if (await isVirtualEnvironmentCurrent(environment)) return;
  console.error(`mlflow-suite: installing MLflow into ${environment.directory} (850 MB)`);
  await createVirtualEnvironment(environment, {});
});
const tests = spawn(process.execPath, [join(ROOT, 'scripts/test.mjs'), '--project', 'mlflow'], {
  stdio: 'inherit',
  env: { ...process.env, TRAINYARD_TEST_MLFLOW: join(environment.directory, 'bin/mlflow') },
});
const [code] = await once(tests, 'exit');
process.exitCode = code ?? 1;
