import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { TINY_ARCHITECTURES, writeTinyGguf } from '@trainyard/transformer/testing';
import { afterAll, expect, test } from 'vitest';
import { openServedFile, type ServedFileOptions } from './served-file.ts';

const directory = mkdtempSync(join(tmpdir(), 'served-file-'));
afterAll(() => rmSync(directory, { recursive: true }));

test('bf16 is for models of the graphs, and refused for others, which llama.cpp computes', () => {
  const [known, odd] = [join(directory, 'known.gguf'), join(directory, 'odd.gguf')];
  writeTinyGguf(known, TINY_ARCHITECTURES.llama);
  // A head size without vectors in the attention kernels.
  writeTinyGguf(odd, {
    ...TINY_ARCHITECTURES.llama,
    headSize: 6,
    hiddenSize: 6 * TINY_ARCHITECTURES.llama.numHeads,
  });
  const served = (modelPath: string, precision: ServedFileOptions['precision']) => {
    const opened = openServedFile({ modelPath, precision, cacheDirectory: directory, numThreads: 1 });
    opened.vocabulary.close();
    return opened.served;
  };
  expect(served(known, 'bf16')).toEqual({ runner: 'graphs', path: known, matrices: 'bf16' });
  expect(served(known, 'exact')).toEqual({ runner: 'graphs', path: known, matrices: 'f32' });
  expect(() => served(odd, 'bf16')).toThrow(
    'precision bf16 needs a model that the trainer supports, odd.gguf is not: use exact, strict or fast',
  );
  const gemma = join(directory, 'gemma.gguf');
  writeTinyGguf(gemma, TINY_ARCHITECTURES.gemma3);
  expect(served(gemma, 'exact')).toEqual({ runner: 'graphs', path: gemma, matrices: 'f32' });
  expect(() => served(gemma, 'bf16')).toThrow(
    'precision bf16 does not support gemma3 models such as gemma.gguf: use exact, strict or fast',
  );
  // Only `fast` may sum attention in half precision.
  const odds = (['exact', 'strict', 'fast'] as const).map((precision) => served(odd, precision));
  expect(odds).toEqual([
    { runner: 'llama', path: odd, cachePrecision: 'f16', flashAttention: false },
    { runner: 'llama', path: odd, cachePrecision: 'f32', flashAttention: false },
    { runner: 'llama', path: odd, cachePrecision: 'f16', flashAttention: true },
  ]);
});
