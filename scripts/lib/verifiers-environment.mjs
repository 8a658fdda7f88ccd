import { join, resolve } from 'node:path';

import { createVirtualEnvironment, isVirtualEnvironmentCurrent, virtualEnvironment } from './virtual-environment.mjs';

const ROOT = resolve(import.meta.dirname, '../..');
const ENVIRONMENT = virtualEnvironment(
  join(ROOT, '.cache/venv-verifiers'),
  join(ROOT, 'examples/verifiers/requirements.txt'),
);

/** Whether the Python of examples/verifiers is there with what its requirements name. @returns {Promise<boolean>} */
async function hasVerifiersEnvironment() {
  return await isVirtualEnvironmentCurrent(ENVIRONMENT);
}

/**
 * The Python that examples/verifiers runs on, made where it is missing.
 *
 * @param {(line: string) => void} log
 * @returns {Promise<string>} its path
 * @throws {Error} that says what is missing
 */
export async function verifiersEnvironment(log) {
  if (!(await hasVerifiersEnvironment())) {
    log(`installing the Python packages of examples/verifiers into ${ENVIRONMENT.directory} (about 450 MB, a minute)`);
    const pipOptions = ['--no-compile', '--no-deps', '--only-binary=:all:'];
    await createVirtualEnvironment(ENVIRONMENT, { pipOptions });
  }
  return ENVIRONMENT.python;
}
