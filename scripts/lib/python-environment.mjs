import { join } from 'node:path';

import {
  createVirtualEnvironment,
  findPython,
  isVirtualEnvironmentCurrent,
  OLDEST_MINOR,
  virtualEnvironment,
} from './virtual-environment.mjs';

/**
 * The virtual environments of the Python clients in tests/clients, and of an example. Clients that ask for versions which exclude each other live in different ones.
 * Options of pip beyond the requirements: code that is compiled when it is first imported makes the installation three times as fast.
 */
const ENVIRONMENTS = {
  agents: {
    requirements: 'requirements-agents.txt',
    size: '100 MB',
    pipOptions: ['--no-compile', '--no-deps', '--only-binary=:all:'],
  },
  art: { requirements: 'requirements.txt', size: '600 MB', pipOptions: ['--no-compile'] },
  clients: {
    requirements: 'requirements-clients.txt',
    size: '800 MB',
    pipOptions: ['--no-compile', '--no-deps', '--only-binary=:all:'],
  },
  generator: { requirements: 'requirements-generator.txt', size: '85 MB', pipOptions: ['--no-compile'] },
  tinker: { requirements: 'requirements-tinker.txt', size: '180 MB', pipOptions: ['--no-compile'] },
  verifiers: {
    requirements: '../../examples/verifiers/requirements.txt',
    size: '360 MB',
    pipOptions: ['--no-compile', '--no-deps', '--only-binary=:all:'],
  },
  // Last: it wants a newer Python than the others, and where there is none the others are there all the same.
  'art-newest': {
    requirements: 'requirements-art-newest.txt',
    size: '800 MB',
    minor: 12,
    pipOptions: ['--no-compile'],
  },
};

/** @typedef {keyof typeof ENVIRONMENTS} PythonEnvironmentName `agents`: frameworks for agents over responses; `art`: ART's training client, `art-newest`: its newest release; `clients`: everything that only samples; `generator`: makes a client from the OpenAPI document; `tinker`: the SDK of the Tinker protocol; `verifiers`: examples/verifiers */

/**
 * @param {string} root the repository
 * @param {PythonEnvironmentName} [name]
 */
export function pythonEnvironment(root, name = 'art') {
  const { requirements } = ENVIRONMENTS[name];
  return virtualEnvironment(join(root, `.cache/venv-${name}`), join(root, 'tests/clients', requirements));
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
 * @param {PythonEnvironmentName} [only] default: all of them
 * @throws {Error} that says what is missing; the caller goes on without these tests
 */
export async function createPythonEnvironments(root, log, only) {
  for (const name of await missingEnvironments(root, only)) {
    const environment = pythonEnvironment(root, name);
    const { size, pipOptions, minor } = { minor: OLDEST_MINOR, ...ENVIRONMENTS[name] };
    if ((await findPython(minor)) === null) {
      log(
        `THE TESTS OF ${ENVIRONMENTS[name].requirements} WILL BE SKIPPED: they need Python 3.${minor} or newer, and there is none`,
      );
      continue;
    }
    log(
      `installing Python packages of ${ENVIRONMENTS[name].requirements} into ${environment.directory} (about ${size}, a minute)`,
    );
    await createVirtualEnvironment(environment, { pipOptions, minor });
  }
}

/** Whether this machine has the Python that an environment asks for. @param {PythonEnvironmentName} name */
export async function hasPythonFor(name) {
  const { minor } = { minor: OLDEST_MINOR, ...ENVIRONMENTS[name] };
  return (await findPython(minor)) !== null;
}

/** @param {string} root @param {PythonEnvironmentName} [only] */
async function missingEnvironments(root, only) {
  const names = only === undefined ? /** @type {PythonEnvironmentName[]} */ (Object.keys(ENVIRONMENTS)) : [only];
  const areCurrent = await Promise.all(names.map((name) => isVirtualEnvironmentCurrent(pythonEnvironment(root, name))));
  return names.filter((_name, index) => !areCurrent[index]);
}
