import { existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { TINY_ARCHITECTURES, writeTinyFolder } from '@trainyard/trainer/testing';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';

import { resolveConfig } from '../settings/config.ts';
import { prepareModels } from '../parts/prepare-models.ts';
import { listStoredBases, removeStoredBase } from './stored-bases.ts';

const scratch = mkdtempSync(join(tmpdir(), 'trainyard-stored-bases-'));
const [cache, data] = [join(scratch, 'cache'), join(scratch, 'data')];
beforeAll(() => void vi.stubEnv('HF_HUB_CACHE', cache));
afterAll(() => {
  vi.unstubAllEnvs();
  rmSync(scratch, { recursive: true });
});

const configOf = (...models: string[]) =>
  resolveConfig({ flags: { model: models, dataDir: data }, environment: {}, configPath: null });

test('models of the hub and copies are listed with sizes, and those of deleted folders are removed', async () => {
  const folders = ['kept', 'gone'].map((name) => join(scratch, name));
  for (const folder of folders) await writeTinyFolder(folder, `${folder}.gguf`, TINY_ARCHITECTURES.qwen2);
  const config = configOf(...folders);
  await prepareModels(config, () => undefined);
  const blobs = join(cache, 'models--org--a-model/blobs');
  mkdirSync(blobs, { recursive: true });
  writeFileSync(join(blobs, 'a'.repeat(64)), '12345');
  writeFileSync(join(blobs, `${'b'.repeat(64)}.trainyard.incomplete`), '123');
  // Neither is a base model.
  mkdirSync(join(cache, 'datasets--org--data'));
  writeFileSync(join(data, 'models/other.gguf'), 'GGUF');

  renameSync(folders[1]!, `${folders[1]!}.moved`);
  const listed = listStoredBases(config);
  expect(listed.map(({ kind, name, isOrphan, source }) => [kind, name.split('.')[0], isOrphan, source])).toEqual([
    ['hub', 'org/a-model', false, null],
    ['copy', 'gone', true, folders[1]],
    ['copy', 'kept', false, folders[0]],
  ]);
  expect(listed[0]).toMatchObject({ sizeBytes: 8, partialBytes: 3 });
  for (const base of listed.filter(({ isOrphan }) => isOrphan)) removeStoredBase(base, config);
  expect(readdirSync(join(data, 'models')).filter((name) => name.startsWith('gone'))).toEqual([]);
  expect(readdirSync(join(data, 'models')).filter((name) => name.startsWith('kept')).length).toBe(2);
  removeStoredBase(listed[0]!, config);
  expect(existsSync(join(cache, 'models--org--a-model'))).toBe(false);
});
