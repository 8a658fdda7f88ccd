import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { expect, test } from 'vitest';

import { resolveConfig } from './config.ts';

const folder = mkdtempSync(join(tmpdir(), 'trainyard-models-'));
function fileOf(content: object): string {
  const path = join(folder, `${crypto.randomUUID()}.json`);
  writeFileSync(path, JSON.stringify(content));
  return path;
}
/** `id path` of each model. */
function modelsOf(sources: { flags?: object; environment?: Record<string, string>; file?: object }): string[] {
  const { flags = {}, environment = {}, file } = sources;
  const configPath = file === undefined ? null : fileOf(file);
  return resolveConfig({ flags, environment, configPath }).models.map(({ id, path }) => `${id} ${path}`);
}

test('the flag may be given several times, each a path or an id with a path', () => {
  expect(modelsOf({ flags: { model: ['/m/one.gguf', 'org/two=/m/second.gguf'] } })).toEqual([
    'one /m/one.gguf',
    'org/two /m/second.gguf',
  ]);
});

test('the variable is a list by commas, and a config file has a list or one text', () => {
  expect(modelsOf({ environment: { TRAINYARD_MODEL: '/m/one.gguf,two=/m/second.gguf' } })).toEqual([
    'one /m/one.gguf',
    'two /m/second.gguf',
  ]);
  expect(modelsOf({ file: { model: ['/m/one.gguf', { id: 'two', path: '/m/second.gguf' }] } })).toEqual([
    'one /m/one.gguf',
    'two /m/second.gguf',
  ]);
  expect(modelsOf({ file: { model: '/m/one.gguf' }, flags: { modelId: 'mine' } })).toEqual(['mine /m/one.gguf']);
  expect(modelsOf({ file: { model: '/m/a.gguf' }, environment: { TRAINYARD_MODEL: '/m/b.gguf' } })).toEqual([
    'b /m/b.gguf',
  ]);
});

test('the name of an existing file is a path, with any content', () => {
  const [commas, equals] = [join(folder, 'a,b.gguf'), 'x=y.gguf'];
  writeFileSync(commas, '');
  expect(modelsOf({ environment: { TRAINYARD_MODEL: commas } })).toEqual([`a,b ${commas}`]);
  expect(modelsOf({ flags: { model: `./${equals}` } })).toEqual([`x=y ${join(process.cwd(), equals)}`]);
  expect(modelsOf({ flags: { model: [`/m/${equals}`] } })).toEqual([`x=y /m/${equals}`]);
});

test('a folder has its name as its id, and a snapshot of the Hugging Face cache that of its repository', () => {
  const snapshot = '/hub/models--org--some-model/snapshots/0123abcd';
  expect(modelsOf({ flags: { model: ['/m/mine/', snapshot, 'own=/m/mine'] } })).toEqual([
    'mine /m/mine',
    `org/some-model ${snapshot}`,
    'own /m/mine',
  ]);
});

test('a model of a config file may have a cache and a way of calls of its own', () => {
  const model = [
    '/m/a.gguf',
    { path: '/m/b.gguf', capacityTokens: 512, toolParser: 'hermes', chatTemplate: '/m/b.jinja' },
  ];
  const { models } = resolveConfig({
    flags: { capacityTokens: '1024' },
    environment: {},
    configPath: fileOf({ model }),
  });
  expect(models).toMatchObject([
    { id: 'a', capacityTokens: 1024, toolParser: 'auto', chatTemplate: null },
    { id: 'b', capacityTokens: 512, toolParser: 'hermes', chatTemplate: '/m/b.jinja' },
  ]);
});

test.each([
  [{ flags: { model: ['/m/a.gguf', '/n/a.gguf'] } }, 'two models have the id a: give each its own'],
  [{ flags: { model: 'x=/m/a.gguf', modelId: 'y' } }, 'the first model has two ids: x in --model and y'],
  [{ flags: { model: 'team/project/agent=/m/a.gguf' } }, 'has the form of a trained model, entity/project/name'],
  [{ flags: { model: 'agent:step3=/m/a.gguf' } }, 'ends like the version of a trained model'],
  [{ flags: { model: '/m/agent@3.gguf' } }, 'ends like the version of a trained model'],
  [{ flags: { model: 'adapter:x=/m/a.gguf' } }, 'starts like the name of an adapter'],
  [{ flags: { model: 'two words=/m/a.gguf' } }, 'must be 1 to 256 printable characters without spaces'],
  [{ flags: { model: '' } }, 'flag --model must be a non-empty string'],
  [{ file: { model: [] } }, 'must name at least one model'],
  [{ file: { model: [{ id: 'a' }] } }, 'must have the path of a GGUF file'],
  [{ file: { model: [{ path: '/a', precision: 'fast' }] } }, 'has unknown settings: precision'],
  [{ file: { model: ['/a', 7] } }, 'number 2 of "model" in'],
  [{ file: { model: [{ path: '/a', capacityTokens: 3 }] } }, 'must be a whole number from 256'],
])('refuses %j', (sources, message) => {
  expect(() => modelsOf(sources)).toThrow(message);
});
