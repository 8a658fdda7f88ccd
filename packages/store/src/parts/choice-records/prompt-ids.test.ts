import fc from 'fast-check';
import { expect, test } from 'vitest';

import { packPromptIds, unpackPromptIds } from './prompt-ids.ts';

const WORDS = Array.from({ length: 400 }, (_, index) => (index * 7919) % 49_152);

test('ids come back, short and long, as views of larger arrays, random ones too', () => {
  const id = fc.oneof(fc.constantFrom(...WORDS), fc.integer({ min: 0, max: 2 ** 31 - 1 }));
  fc.assert(
    fc.property(
      fc.array(id, { maxLength: 600, size: 'max' }),
      fc.integer({ min: 1, max: 4 }),
      fc.nat(3),
      (ids, times, from) => {
        const prompt = Int32Array.from(Array.from({ length: times }, () => ids).flat()).subarray(from);
        expect(unpackPromptIds(packPromptIds(prompt))).toEqual(prompt);
      },
    ),
    { numRuns: 60 },
  );
});

test('ids of before, which are not packed, are read as they are', () => {
  for (const length of [0, 1, 3, 1000]) {
    const ids = Int32Array.from({ length }, (_, index) => index * 3);
    expect(unpackPromptIds(new Uint8Array(ids.buffer))).toEqual(ids);
  }
});

test('a long prompt of some hundred words takes less than half of its numbers', () => {
  let state = 1;
  const next = () => (state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0) / 2 ** 32;
  // Frequencies as of words: the first often, the last hardly ever.
  const prompt = Int32Array.from({ length: 8000 }, () => WORDS[Math.floor(WORDS.length ** next()) - 1]!);
  const packed = packPromptIds(prompt);
  console.log(`8,000 tokens: ${packed.length} bytes for ${prompt.byteLength}`);
  expect(packed.length).toBeLessThan(prompt.byteLength / 2);
});
