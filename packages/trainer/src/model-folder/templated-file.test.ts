import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { GgufFile, LlamaModel } from '@trainyard/native';
import { TINY_ARCHITECTURES, TINY_CHAT_TEMPLATE, writeTinyGguf } from '@trainyard/transformer/testing';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { writeTinyFolder } from '../testing/tiny-folder.ts';
import { copySource } from './copy-source.ts';
import { modelCopy } from './model-copy.ts';

const SOURCE = '{% for message in messages %}{{ message.content }} ✓\n{% endfor %}';

const scratch = mkdtempSync(join(tmpdir(), 'trainyard-template-'));
afterAll(() => rmSync(scratch, { recursive: true }));

const model = join(scratch, 'tiny.gguf');
beforeAll(() => writeTinyGguf(model, TINY_ARCHITECTURES.qwen3));

let template: string;
let directory: string;
beforeEach(() => {
  const place = mkdtempSync(join(scratch, 'one-'));
  template = join(place, 'chat.jinja');
  directory = join(place, 'copies');
  writeFileSync(template, SOURCE);
});

const copied = (path: string, onCopy?: () => void) =>
  modelCopy(copySource(path, template)!, { directory, ...(onCopy && { onCopy }) });

test('a file keeps all but its template', async () => {
  expect(copySource(model, null)).toBe(null);
  using file = GgufFile.open(await copied(model));
  using source = GgufFile.open(model);
  expect(source.metadata.get('tokenizer.chat_template')).toBe(TINY_CHAT_TEMPLATE);
  expect(new Map(file.metadata)).toEqual(new Map(source.metadata).set('tokenizer.chat_template', SOURCE));
  expect([...file.tensors.keys()]).toEqual([...source.tensors.keys()]);
  for (const name of source.tensors.keys()) expect(file.readRaw(name)).toEqual(source.readRaw(name));
});

test('llama.cpp reads the copy', async () => {
  const copy = LlamaModel.load(await copied(model), { vocabOnly: true });
  expect(copy.chatTemplate).toBe(SOURCE);
  copy.close();
});

test('a copy is made again for another text of the template, under the same name', async () => {
  let copies = 0;
  const count = () => void (copies += 1);
  const first = await copied(model, count);
  expect(await copied(model, count)).toBe(first);
  expect(copies).toBe(1);
  writeFileSync(template, `${SOURCE}!`);
  expect(await copied(model, count)).toBe(first);
  expect(copies).toBe(2);
  using file = GgufFile.open(first);
  expect(file.metadata.get('tokenizer.chat_template')).toBe(`${SOURCE}!`);
});

test('a folder is converted with the template, and without it under another name', async () => {
  const folder = join(directory, '../folder');
  await writeTinyFolder(folder, join(directory, '../original.gguf'), TINY_ARCHITECTURES.llama);
  const own = await modelCopy(copySource(folder, null)!, { directory });
  const other = await copied(folder);
  expect(other).not.toBe(own);
  using file = GgufFile.open(other);
  expect(file.metadata.get('tokenizer.chat_template')).toBe(SOURCE);
});

test.each<[problem: string, write: () => void, message: RegExp]>([
  ['is missing', () => rmSync(template), /^the chat template \S+chat\.jinja cannot be read: ENOENT/],
  ['is empty', () => writeFileSync(template, ' \n'), /chat\.jinja is empty$/],
  ['is no Jinja', () => writeFileSync(template, '{{ x'), /chat\.jinja is refused: .*unexpected end of input/],
  ['is no UTF-8', () => writeFileSync(template, Buffer.of(0x7b, 0xff)), /cannot be read as UTF-8/],
  [
    'is too long',
    () => writeFileSync(template, Buffer.alloc(4 << 20, 'x')),
    /has 4194304 bytes; at most 3145728 are possible$/,
  ],
])('a template that %s is refused, and nothing is written', async (_problem, write, message) => {
  write();
  await expect(Promise.try(() => copied(model))).rejects.toThrow(message);
  expect(existsSync(directory)).toBe(false);
});

test('a file that is cut off is refused', async () => {
  const cut = join(directory, '../cut.gguf');
  writeFileSync(cut, readFileSync(model).subarray(0, -100));
  await expect(copied(cut)).rejects.toThrow(/cut\.gguf is not a readable GGUF file: tensor/);
  expect(existsSync(directory)).toBe(false);
});
