import { existsSync } from 'node:fs';
import { resolve } from 'node:path';

/** The tiny real model that model-dependent tests run on, placed there by `scripts/bootstrap.mjs`. */
const MODEL_DIRECTORY = resolve(import.meta.dirname, '../../.trainyard/models');

/**
 * Paths of the default model: `base` is the file as shipped (Q4_1), `f16` its half-precision copy, made on first use of the service.
 *
 * `TRAINYARD_TEST_MODEL` and `TRAINYARD_TEST_MODEL_F16` override them.
 * @throws when a file is missing, naming the command that fetches it
 */
export function testModel(): { base: string; f16: string } {
  return {
    base: existing(process.env['TRAINYARD_TEST_MODEL'] ?? `${MODEL_DIRECTORY}/SmolLM2-135M-Instruct.Q4_1.gguf`),
    f16: existing(process.env['TRAINYARD_TEST_MODEL_F16'] ?? `${MODEL_DIRECTORY}/SmolLM2-135M-Instruct.Q4_1.f16.gguf`),
  };
}

function existing(path: string): string {
  if (!existsSync(path)) throw new Error(`the test model ${path} is missing: run "node scripts/bootstrap.mjs" first`);
  return path;
}
