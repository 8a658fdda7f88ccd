/** `trainyard export --base`: one command writes a base model in both forms, without a service. */
import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { GgufFile } from '@trainyard/native';
import { expect, onTestFinished, test } from 'vitest';

import { programPath } from '../../scripts/program-path.ts';
import { testModel } from '../support/model.ts';

const MAIN = programPath('packages/cli/src/main.ts');

function trainyard(...args: string[]): { code: number | null; output: string; errors: string } {
  const { status, stdout, stderr } = spawnSync(process.execPath, ['--conditions=@trainyard/source', MAIN, ...args], {
    encoding: 'utf8',
  });
  return { code: status, output: stdout, errors: stderr };
}

test('a GGUF file becomes a folder for --model and one for vLLM, with the same log-probabilities, and a folder a GGUF file', () => {
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

  const back = join(scratch, 'back');
  const returned = trainyard(
    'export',
    '--base',
    join(output, 'hugging-face'),
    '--format',
    'merged-gguf',
    '--output',
    back,
  );
  expect(returned).toMatchObject({ code: 0 });
  expect(readdirSync(back)).toEqual(['gguf']);
  using first = GgufFile.open(join(output, 'gguf/model.gguf'));
  using second = GgufFile.open(join(back, 'gguf/model.gguf'));
  expect([...second.tensors.keys()].toSorted()).toEqual([...first.tensors.keys()].toSorted());
  for (const name of first.tensors.keys()) expect(second.readF32(name)).toEqual(first.readF32(name));
  const pickled = join(scratch, 'pickled');
  cpSync(join(output, 'hugging-face'), pickled, { recursive: true });
  renameSync(join(pickled, 'model.safetensors'), join(pickled, 'pytorch_model.bin'));
  const refused = trainyard('export', '--base', pickled, '--output', join(scratch, 'refused'));
  expect(refused.errors).toMatch(
    /^trainyard: the model folder .*\/pickled: it has only pickled weights \(pytorch_model\.bin\)/m,
  );
  expect(refused.errors).not.toMatch(/^ +at /m);
  expect(refused.code).toBe(2);

  const again = trainyard('export', '--base', testModel().small, '--output', output);
  expect([again.code, again.errors]).toEqual([1, expect.stringContaining('is not empty')]);
  const missing = trainyard('export', '--base', join(scratch, 'none.gguf'), '--output', join(scratch, 'other'));
  expect([missing.code, missing.errors]).toEqual([1, expect.stringContaining('none.gguf does not exist')]);
  expect(readdirSync(scratch).toSorted()).toEqual(['back', 'base', 'pickled']);
}, 200_000);
