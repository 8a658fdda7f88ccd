import { join } from 'node:path';

import {
  createVirtualEnvironment,
  findPython,
  isVirtualEnvironmentCurrent,
  OLDEST_MINOR,
  virtualEnvironment,
} from './virtual-environment.mjs';

/**
 * Virtual environments of the Python clients in tests/clients, and of an example. Clients with incompatible
 * requirements have separate ones.
 */
const ENVIRONMENTS = {
  art: { requirements: 'requirements.txt', size: '600 MB' },
  // It needs a newer Python than the others, which are installed even without it.
  'art-newest': {
    requirements: 'requirements-art-newest.txt',
    size: '800 MB',
    minor: 12,
  },
  clients: {
    requirements: 'requirements-clients.txt',
    size: '800 MB',
    pipOptions: ['--no-deps', '--only-binary=:all:'],
  },
  verifiers: {
    requirements: '../../examples/verifiers/requirements.txt',
    size: '360 MB',
    pipOptions: ['--no-deps', '--only-binary=:all:'],
  },
  tinker: { requirements: 'requirements-tinker.txt', size: '180 MB' },
  agents: {
    requirements: 'requirements-agents.txt',
    size: '100 MB',
    pipOptions: ['--no-deps', '--only-binary=:all:'],
  },
  generator: { requirements: 'requirements-generator.txt', size: '85 MB' },
  // Only its example installs it: pycosat has no wheel and needs a C compiler.
  'reasoning-gym': {
    requirements: '../../examples/reasoning-gym/requirements.txt',
    size: '350 MB',
    pipOptions: ['--no-deps'],
    isOnDemand: true,
  },
};

/**
 * @typedef {keyof typeof ENVIRONMENTS} PythonEnvironmentName `agents`: frameworks for agents over responses;
 * `art`: ART's training client, `art-newest`: its newest release; `clients`: clients that only sample;
 * `generator`: generates a client from the OpenAPI document; `reasoning-gym`: examples/reasoning-gym;
 * `tinker`: the SDK of the Tinker protocol; `verifiers`: examples/verifiers
 */

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
 * @param {PythonEnvironmentName} [name] default: all but those on demand
 * @returns {Promise<boolean>} true if it exists with the current requirements
 */
export async function hasPythonEnvironment(root, name) {
  return (await missingEnvironments(root, name)).length === 0;
}

/**
 * Creates missing environments.
 * @param {string} root
 * @param {(line: string) => void} log
 * @param {PythonEnvironmentName} [only] default: all but those on demand
 * @throws {Error} naming the missing part; the caller continues without these tests
 */
export async function createPythonEnvironments(root, log, only) {
  for (const name of await missingEnvironments(root, only)) await createPythonEnvironment(root, name, log);
}

/** @param {string} root @param {PythonEnvironmentName} name @param {(line: string) => void} log */
async function createPythonEnvironment(root, name, log) {
  const environment = pythonEnvironment(root, name);
  const defaults = { minor: OLDEST_MINOR, pipOptions: [] };
  const { size, pipOptions, minor } = { ...defaults, ...ENVIRONMENTS[name] };
  if ((await findPython(minor)) === null) {
    log(
      `THE TESTS OF ${ENVIRONMENTS[name].requirements} WILL BE SKIPPED: they need Python 3.${minor} or newer, which was not found`,
    );
    return;
  }
  log(`installing Python packages of ${ENVIRONMENTS[name].requirements} into ${environment.directory} (about ${size})`);
  await createVirtualEnvironment(environment, { pipOptions, minor });
}

/** True if this machine has the Python that an environment needs. @param {PythonEnvironmentName} name */
export async function hasPythonFor(name) {
  const { minor } = { minor: OLDEST_MINOR, ...ENVIRONMENTS[name] };
  return (await findPython(minor)) !== null;
}

/** @param {string} root @param {PythonEnvironmentName} [only] */
async function missingEnvironments(root, only) {
  const all = /** @type {PythonEnvironmentName[]} */ (Object.keys(ENVIRONMENTS));
  const names = only === undefined ? all.filter((name) => !('isOnDemand' in ENVIRONMENTS[name])) : [only];
  const areCurrent = await Promise.all(names.map((name) => isVirtualEnvironmentCurrent(pythonEnvironment(root, name))));
  return names.filter((_name, index) => !areCurrent[index]);
}
