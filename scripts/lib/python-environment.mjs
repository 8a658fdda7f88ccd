import { join } from 'node:path';

import { createVirtualEnvironment, isVirtualEnvironmentCurrent, virtualEnvironment } from './virtual-environment.mjs';

/**
 * The virtual environment of the Python conformance tests.
 * @param {string} root the repository
 */
export function pythonEnvironment(root) {
  return virtualEnvironment(join(root, '.cache/venv-art'), join(root, 'tests/conformance/requirements.txt'));
}

/** @param {string} root @returns {Promise<boolean>} whether the environment is there and of the current requirements */
export async function hasPythonEnvironment(root) {
  return await isVirtualEnvironmentCurrent(pythonEnvironment(root));
}

/**
 * @param {string} root
 * @param {(line: string) => void} log
 * @throws {Error} that says what is missing; the caller goes on without these tests
 */
export async function createPythonEnvironment(root, log) {
  const environment = pythonEnvironment(root);
  log(`installing the Python clients of the conformance tests into ${environment.directory} (about 600 MB, a minute)`);
  await createVirtualEnvironment(environment);
}
