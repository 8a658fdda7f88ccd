import { describe, expect, test } from 'vitest';
import { randomSource } from '@trainyard/transformer/testing';
import { BLOCK_SIZE, createRowKernel } from './row-kernel.ts';

describe('row kernel', () => {
  const random = randomSource(6);

  test.each([1, 127, 128, 129, 1000, 49_152])(
    'a row of %i: block maxima and sums are those of plain loops',
    (vocabSize) => {
      const kernel = createRowKernel(vocabSize);
      let largest = 0;
      for (const temperature of [0.01, 0.7, 1, 2]) {
        const row = Float32Array.from({ length: vocabSize }, () => 20 * random());
        row[Math.floor(vocabSize / 2)] = -Infinity;
        const maximum = row.reduce((a, b) => Math.max(a, b), -30);
        kernel.row.set(row);
        kernel.findMaxima();
        kernel.sumExponentials(maximum, 1 / temperature);
        for (let block = 0; block < kernel.blockMaxima.length; block++) {
          const part = row.subarray(block * BLOCK_SIZE, (block + 1) * BLOCK_SIZE);
          expect(kernel.blockMaxima[block]).toBe(part.reduce((a, b) => Math.max(a, b), -Infinity));
          // Differences and 1 / T are rounded to float32, an error of 6e-6 of the term at (x - max) / T = -50 and less
          // above.
          const expected = part.reduce((sum, x) => {
            const scaled = (x - maximum) / temperature;
            return sum + (scaled > -50 ? Math.exp(scaled) : 0);
          }, 0);
          if (expected > 1e-20) largest = Math.max(largest, Math.abs(kernel.blockSums[block]! / expected - 1));
        }
      }
      console.log(`row of ${vocabSize}: largest relative difference of a block's sum ${largest.toExponential(1)}`);
      expect(largest).toBeLessThan(1e-5);
    },
  );

  test('a NaN shows in the maximum of its block; rows of -Infinity have sums of 0', () => {
    const kernel = createRowKernel(300);
    kernel.row.fill(-Infinity);
    kernel.row[200] = NaN;
    kernel.findMaxima();
    expect([...kernel.blockMaxima]).toEqual([-Infinity, NaN, -Infinity]);
    kernel.row[200] = 3;
    kernel.findMaxima();
    kernel.sumExponentials(3, 1);
    expect([...kernel.blockSums]).toEqual([0, 1, 0]);
  });
});
