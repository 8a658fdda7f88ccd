/** `trainyard export --base`: one command writes a base model in both forms, without a service. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

import { expect, onTestFinished, test } from 'vitest';

import { testModel } from '../support/model.ts';

const MAIN = resolve(import.meta.dirname, '../../packages/cli/src/main.ts');

function trainyard(...args: string[]): { code: number | null; output: string; errors: string } {
  const { status, stdout, stderr } = spawnSync(process.execPath, ['--conditions=@trainyard/source', MAIN, ...args], {
    encoding: 'utf8',
  });
  return { code: status, output: stdout, errors: stderr };
}

test('a GGUF file becomes a folder for --model and one for vLLM, with the same log-probabilities', () => {
  const scratch = mkdtempSync(join(tmpdir(), 'trainyard-base-'));
  onTestFinished(() => rmSync(scratch, { recursive: true }));
  const output = join(scratch, 'base');
  const made = trainyard('export', '--base', testModel().small, '--output', output, '--json');
  expect(made).toMatchObject({ code: 0 });
  const { exports } = JSON.parse(made.output) as {
    exports: { format: string; parity: { meanDifference: number } }[];
  };
  expect(exports.map(({ format }) => format)).toEqual(['merged-gguf', 'merged-safetensors']);
  // Rounding to half precision.
  for (const { parity } of exports) expect(parity.meanDifference).toBeLessThan(0.01);
  expect(readdirSync(join(output, 'gguf')).toSorted()).toEqual(['model.gguf', 'parity.json']);
  const names = readdirSync(join(output, 'hugging-face'));
  for (const name of ['config.json', 'model.safetensors', 'tokenizer.json', 'tokenizer_config.json'])
    expect(names).toContain(name);
  const config = JSON.parse(readFileSync(join(output, 'hugging-face/config.json'), 'utf8')) as object;
  expect(config).toMatchObject({ architectures: [expect.any(String)] });

  const again = trainyard('export', '--base', testModel().small, '--output', output);
  expect([again.code, again.errors]).toEqual([1, expect.stringContaining('is not empty')]);
  const missing = trainyard('export', '--base', join(scratch, 'none.gguf'), '--output', join(scratch, 'other'));
  expect([missing.code, missing.errors]).toEqual([1, expect.stringContaining('none.gguf does not exist')]);
  expect(readdirSync(scratch)).toEqual(['base']);
}, 200_000);
