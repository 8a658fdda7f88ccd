import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Bf16Weights, GgufFile, openBf16Library } from '@trainyard/native';
import { TINY_ARCHITECTURES, withoutTensor, writeTinyGguf } from '@trainyard/transformer/testing';
import { afterAll, expect, test, vi } from 'vitest';
import { Bf16Matrices } from './bf16-matrices.ts';

const ARCHITECTURE = TINY_ARCHITECTURES.llama;
const directory = mkdtempSync(join(tmpdir(), 'bf16-matrices-'));
const path = join(directory, 'model.gguf');
writeTinyGguf(path, ARCHITECTURE);
afterAll(() => rmSync(directory, { recursive: true }));

test('matrices that cannot all be made are closed', () => {
  using file = GgufFile.open(path);
  const library = openBf16Library(process.env['TRAINYARD_TEST_BF16_LIBRARY']!, 1);
  const missing = `blk.${ARCHITECTURE.numLayers - 1}.attn_q.weight`;
  const broken = withoutTensor(file, missing);
  const closed = vi.spyOn(Bf16Weights.prototype, 'close');
  const whole = new Bf16Matrices(file, ARCHITECTURE, library, 1);
  // Some were made only to try the cuts.
  const numTried = closed.mock.calls.length;
  whole.close();
  closed.mockClear();
  expect(() => new Bf16Matrices(broken, ARCHITECTURE, library, 1)).toThrow(`no ${missing}`);
  expect(closed).toHaveBeenCalledTimes(numTried + 5 * (ARCHITECTURE.numLayers - 1));
  closed.mockRestore();
});
