import { join } from 'node:path';

import { createVirtualEnvironment, isVirtualEnvironmentCurrent, virtualEnvironment } from './virtual-environment.mjs';

/**
 * The virtual environments of the Python conformance tests. Clients that ask for versions which exclude each other live in different ones.
 * What pip is told beyond the requirements: code that is compiled when it is first imported makes the installation three times as fast.
 */
const ENVIRONMENTS = {
  art: { requirements: 'requirements.txt', size: '600 MB', pipOptions: ['--no-compile'] },
  clients: {
    requirements: 'requirements-clients.txt',
    size: '800 MB',
    pipOptions: ['--no-compile', '--no-deps', '--only-binary=:all:'],
  },
  generator: { requirements: 'requirements-generator.txt', size: '85 MB', pipOptions: ['--no-compile'] },
};

/** @typedef {keyof typeof ENVIRONMENTS} PythonEnvironmentName `art`: ART's training client; `clients`: everything that only samples; `generator`: makes a client from the OpenAPI document */

/**
 * @param {string} root the repository
 * @param {PythonEnvironmentName} [name]
 */
export function pythonEnvironment(root, name = 'art') {
  const { requirements } = ENVIRONMENTS[name];
  return virtualEnvironment(join(root, `.cache/venv-${name}`), join(root, 'tests/conformance', requirements));
}

/**
 * @param {string} root
 * @param {PythonEnvironmentName} [name] default: all of them
 * @returns {Promise<boolean>} whether it is there and of the current requirements
 */
export async function hasPythonEnvironment(root, name) {
  return (await missingEnvironments(root, name)).length === 0;
}

/**
 * Creates what is missing.
 * @param {string} root
 * @param {(line: string) => void} log
 * @throws {Error} that says what is missing; the caller goes on without these tests
 */
export async function createPythonEnvironments(root, log) {
  for (const name of await missingEnvironments(root)) {
    const environment = pythonEnvironment(root, name);
    const { size, pipOptions } = ENVIRONMENTS[name];
    log(`installing Python clients of the conformance tests into ${environment.directory} (about ${size}, a minute)`);
    await createVirtualEnvironment(environment, { pipOptions });
  }
}

/** @param {string} root @param {PythonEnvironmentName} [only] */
async function missingEnvironments(root, only) {
  const names = only === undefined ? /** @type {PythonEnvironmentName[]} */ (Object.keys(ENVIRONMENTS)) : [only];
  const areCurrent = await Promise.all(names.map((name) => isVirtualEnvironmentCurrent(pythonEnvironment(root, name))));
  return names.filter((_name, index) => !areCurrent[index]);
}
