import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';

import { DEFAULT_MODEL, modelDirectory } from './model-source.mjs';

/**
 * Where tests find the real model (`tests/support/model.ts` reads these variables): what the environment says, else the default model of the
 * data directory, else the file `TRAINYARD_MODEL` names. The half-precision copy is made beside it when it is missing, once, in seconds.
 *
 * @param {string} root the repository
 * @param {Record<string, string | undefined>} env
 * @param {(line: string) => void} log
 * @returns {{ TRAINYARD_TEST_MODEL: string, TRAINYARD_TEST_MODEL_F16: string }}
 */
export function prepareTestModel(root, env, log) {
  const fetched = join(modelDirectory(env, root), DEFAULT_MODEL.fileName);
  const chosen = env['TRAINYARD_TEST_MODEL'] ?? (existsSync(fetched) ? fetched : env['TRAINYARD_MODEL']) ?? fetched;
  const base = resolve(root, chosen);
  const f16 = resolve(root, env['TRAINYARD_TEST_MODEL_F16'] ?? base.replace(/(\.gguf)?$/, '.f16.gguf'));
  if (existsSync(base) && !existsSync(f16)) {
    log(`writing ${f16}`);
    const script = join(root, 'scripts/make-half-precision.mjs');
    const { status } = spawnSync(process.execPath, ['--conditions=@trainyard/source', script, base, f16], {
      cwd: root,
      stdio: ['ignore', 2, 2],
    });
    // The tests that need the file say so themselves; the others run.
    if (status !== 0) log(`${f16} could not be written (exit code ${status})`);
  }
  return { TRAINYARD_TEST_MODEL: base, TRAINYARD_TEST_MODEL_F16: f16 };
}
