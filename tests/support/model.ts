import { existsSync } from 'node:fs';
import { resolve } from 'node:path';

/**
 * Folder in which `scripts/bootstrap.mjs` places the default model, and `scripts/test.mjs` its derived files.
 */
const MODEL_DIRECTORY = resolve(import.meta.dirname, '../../.trainyard/models');
const DEFAULT_FILE = 'SmolLM2-135M-Instruct.Q4_1';

export interface TestModelPaths {
  /** as shipped (Q4_1) */
  readonly base: string;
  /** its half-precision copy */
  readonly f16: string;
  /** its first layers and tokens: meaningless text, at a tenth of the cost */
  readonly small: string;
}

/**
 * Paths of the real model for model-dependent tests: the default model, unless `TRAINYARD_TEST_MODEL`,
 * `TRAINYARD_TEST_MODEL_F16` and `TRAINYARD_TEST_MODEL_SMALL` override it.
 * @throws if a file is missing, with the command that makes it
 */
export function testModel(): TestModelPaths {
  return {
    base: existing('TRAINYARD_TEST_MODEL', `${DEFAULT_FILE}.gguf`),
    f16: existing('TRAINYARD_TEST_MODEL_F16', `${DEFAULT_FILE}.f16.gguf`),
    small: existing('TRAINYARD_TEST_MODEL_SMALL', `${DEFAULT_FILE}.2-layers-8192-tokens.gguf`),
  };
}

function existing(variable: string, defaultName: string): string {
  const path = process.env[variable] ?? resolve(MODEL_DIRECTORY, defaultName);
  if (!existsSync(path)) throw new Error(`the test model ${path} is missing: run "npm test" once, which makes it`);
  return path;
}
