import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { GgufFile, quantizeModel } from '@trainyard/native';
import { afterAll, expect, test } from 'vitest';
import { TINY_ARCHITECTURES, writeTinyGguf } from '../testing/index.ts';
import { embedTokens, MatrixRows } from './embedding.ts';

const folder = mkdtempSync(join(tmpdir(), 'embedding-'));
afterAll(() => rmSync(folder, { recursive: true }));
const { hiddenSize: columns, vocabSize } = TINY_ARCHITECTURES.llama;
const NAME = 'token_embd.weight';

test.each(['f32', 'f16', 'q8_0'] as const)('rows of an embedding in %s are equal wherever it is kept', (type) => {
  const [plain, path] = [join(folder, `${type}.plain.gguf`), join(folder, `${type}.gguf`)];
  writeTinyGguf(plain, TINY_ARCHITECTURES.llama);
  quantizeModel(plain, path, type, 1);
  using file = GgufFile.open(path);
  expect(file.tensors.get(NAME)?.type).toBe(type);
  const tokens = Int32Array.of(0, 5, vocabSize - 1, 5);
  const embedded = (matrix: ConstructorParameters<typeof MatrixRows>[0]): Float32Array => {
    const into = new Float32Array(tokens.length * columns);
    embedTokens(tokens, new MatrixRows(matrix, columns), into, 1.5);
    return into;
  };
  const inMemory = embedded(file.readF32(NAME));
  expect(inMemory.every((value) => value === 0)).toBe(false);
  const stored = file.readStored(NAME);
  expect(embedded(stored)).toEqual(inMemory);
  expect(embedded(file.place(NAME))).toEqual(inMemory);
  expect(() => new MatrixRows(stored, columns).row(vocabSize)).toThrow(
    `values ${vocabSize * columns} to ${(vocabSize + 1) * columns} of ${vocabSize * columns}`,
  );
});
