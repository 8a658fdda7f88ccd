import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { TINY_ARCHITECTURES, writeTinyFolder } from '@trainyard/trainer/testing';
import { afterAll, beforeEach, expect, test } from 'vitest';

import { resolveConfig } from '../settings/config.ts';
import { refuseMissingModels } from '../settings/model-files.ts';
import { prepareModels } from './prepare-models.ts';

const scratch = mkdtempSync(join(tmpdir(), 'trainyard-served-folder-'));
afterAll(() => rmSync(scratch, { recursive: true }));

let folder: string;
let gguf: string;
let data: string;
beforeEach(async () => {
  const place = mkdtempSync(join(scratch, 'one-'));
  [folder, gguf, data] = ['tiny', 'tiny.gguf', 'data'].map((name) => join(place, name)) as [string, string, string];
  await writeTinyFolder(folder, gguf, TINY_ARCHITECTURES.qwen2);
});

const configOf = () =>
  resolveConfig({
    flags: { model: [`first=${folder}`, `second=${gguf}`], dataDir: data },
    environment: {},
    configPath: null,
  });

test('a folder becomes a GGUF file of the data folder, and files stay', async () => {
  const lines: string[] = [];
  const config = configOf();
  refuseMissingModels(config.models);
  const { models } = await prepareModels(config, (line) => lines.push(line));
  expect(models.map(({ id }) => id)).toEqual(['first', 'second']);
  const [first, second] = models.map(({ path }) => path) as [string, string];
  expect(first.startsWith(join(data, 'models/tiny.'))).toBe(true);
  expect(readFileSync(first, 'latin1').slice(0, 4)).toBe('GGUF');
  expect(second).toBe(gguf);
  expect(lines).toEqual([`making ${first} of first (1 MB), once`]);
  await prepareModels(config, (line) => lines.push(line));
  expect(lines.length).toBe(1);
});

test('a folder that cannot be converted is refused before anything is written', () => {
  writeFileSync(join(folder, 'config.json'), '{"model_type": "gemma2"}');
  const refused = () => refuseMissingModels(configOf().models);
  expect(refused).toThrow(
    `the model folder ${folder}: folders of the family "gemma2" (\`model_type\` in config.json) are not supported; supported: llama, `,
  );
  expect(existsSync(data)).toBe(false);
});
