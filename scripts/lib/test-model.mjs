import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';

import { DEFAULT_MODEL, modelDirectory } from './model-source.mjs';

/**
 * Part of the model for tests of the code around it: enough for a reply, an adapter and a gradient in every
 * layer.
 */
const SMALL = { numLayers: 2, numTokens: 8192 };

/**
 * Paths of the real model for tests (`tests/support/model.ts` reads these variables): from the environment,
 * else the default model of the data directory, else `TRAINYARD_MODEL`. Missing half-precision and small
 * copies are written next to it, once, in seconds.
 *
 * @param {string} root the repository
 * @param {Record<string, string | undefined>} env
 * @param {(line: string) => void} log
 * @returns {{ TRAINYARD_TEST_MODEL: string, TRAINYARD_TEST_MODEL_F16: string, TRAINYARD_TEST_MODEL_SMALL: string }}
 */
export function prepareTestModel(root, env, log) {
  const fetched = join(modelDirectory(env, root), DEFAULT_MODEL.fileName);
  const chosen = env['TRAINYARD_TEST_MODEL'] ?? (existsSync(fetched) ? fetched : env['TRAINYARD_MODEL']) ?? fetched;
  const base = resolve(root, chosen);
  const { numLayers, numTokens } = SMALL;
  /** @param {string} variable @param {string} ending @param {string} script @param {...string} args @returns {string} the path */
  const made = (variable, ending, script, ...args) => {
    const path = resolve(root, env[variable] ?? base.replace(/(\.gguf)?$/, ending));
    if (existsSync(path) || !existsSync(base)) return path;
    log(`writing ${path}`);
    const command = ['--conditions=@trainyard/source', join(root, 'scripts', script), base, path, ...args];
    const { status } = spawnSync(process.execPath, command, { cwd: root, stdio: ['ignore', 2, 2] });
    // Tests that need the file report it; the others run.
    if (status !== 0) log(`${path} could not be written (exit code ${status})`);
    return path;
  };
  const smallEnding = `.${numLayers}-layers-${numTokens}-tokens.gguf`;
  return {
    TRAINYARD_TEST_MODEL: base,
    TRAINYARD_TEST_MODEL_F16: made('TRAINYARD_TEST_MODEL_F16', '.f16.gguf', 'make-half-precision.mjs'),
    TRAINYARD_TEST_MODEL_SMALL: made(
      'TRAINYARD_TEST_MODEL_SMALL',
      smallEnding,
      'make-small-model.mjs',
      String(numLayers),
      String(numTokens),
    ),
  };
}
