import { expect, test } from 'vitest';
import { randomSource } from '@trainyard/transformer/testing';
import { compileModule, instantiate, sharedMemory } from '../wasm/web-assembly.ts';
import { MAX_QUERY_HEADS, PAGE_TOKENS, attentionModule, kernelName } from './attention-code.ts';
import type { AttentionKernel } from './attention-code.ts';

const random = randomSource(11);
const fill = (values: Float32Array, scale: number) => {
  for (let i = 0; i < values.length; i++) values[i] = scale * random();
};

/** softmax(scale · q · kᵀ) · v in double precision. */
function plainAttention(
  q: Float32Array,
  k: Float32Array,
  v: Float32Array,
  numKeys: number,
  scale: number,
): Float64Array {
  const headSize = q.length;
  const scores = Array.from({ length: numKeys }, (_, key) => {
    let sum = 0;
    for (let d = 0; d < headSize; d++) sum += q[d]! * k[key * headSize + d]!;
    return scale * sum;
  });
  const maximum = Math.max(...scores);
  const weights = scores.map((score) => Math.exp(score - maximum));
  const total = weights.reduce((a, b) => a + b, 0);
  return Float64Array.from({ length: headSize }, (_, d) =>
    weights.reduce((sum, weight, key) => sum + (weight / total) * v[key * headSize + d]!, 0),
  );
}

test.each([
  [64, 1],
  [64, 2],
  [64, 3],
  [80, 2],
  [128, 3],
  [16, 1],
  [8, 2],
  [20, 3],
])('heads of %i, %i at once: the attention of plain loops over any number of keys', (headSize, numHeads) => {
  const memory = sharedMemory(4 << 20);
  const kernels = instantiate<Record<string, AttentionKernel>>(compileModule(attentionModule(headSize)), memory);
  const attend = kernels[kernelName(numHeads)]!;
  const pageBytes = 2 * PAGE_TOKENS * headSize * 4;
  const numPages = 40;
  const [table, q, o, scores, pool] = [0, 4096, 16_384, 32_768, 65_536];
  const floats = (at: number, length: number) => new Float32Array(memory.buffer, at, length);
  const scale = 1 / Math.sqrt(headSize);
  let largest = 0;
  for (const numKeys of [1, 2, 15, 16, 17, 100, 257, 512]) {
    const query = floats(q, numHeads * headSize);
    fill(query, 3);
    const [keys, values] = [new Float32Array(512 * headSize), new Float32Array(512 * headSize)];
    fill(keys, 1);
    fill(values, 1);
    // Pages lie anywhere; what is behind the last key is left over from others.
    fill(floats(pool, (numPages * pageBytes) / 4), 50);
    const pages = new Int32Array(memory.buffer, table, numPages);
    for (let i = 0; i < numPages; i++) pages[i] = ((7 * i + 3) % numPages) * pageBytes;
    for (let key = 0; key < numKeys; key++) {
      const page = pool + pages[Math.floor(key / PAGE_TOKENS)]!;
      const slot = key % PAGE_TOKENS;
      const pageKeys = floats(page, headSize * PAGE_TOKENS);
      const pageValues = floats(page + headSize * PAGE_TOKENS * 4, headSize * PAGE_TOKENS);
      for (let d = 0; d < headSize; d++) {
        pageKeys[d * PAGE_TOKENS + slot] = keys[key * headSize + d]!;
        pageValues[slot * headSize + d] = values[key * headSize + d]!;
      }
    }
    attend(q, o, table, numKeys, pool, pool + headSize * PAGE_TOKENS * 4, scores, scale);
    for (let head = 0; head < numHeads; head++) {
      const expected = plainAttention(
        query.slice(head * headSize, (head + 1) * headSize),
        keys,
        values,
        numKeys,
        scale,
      );
      const output = floats(o + head * headSize * 4, headSize);
      for (const [d, value] of expected.entries()) largest = Math.max(largest, Math.abs(output[d]! - value));
    }
  }
  console.log(`heads of ${headSize}, ${numHeads} at once: largest difference ${largest.toExponential(1)}`);
  expect(largest).toBeLessThan(2e-6);
  expect(numHeads).toBeLessThanOrEqual(MAX_QUERY_HEADS);
});
