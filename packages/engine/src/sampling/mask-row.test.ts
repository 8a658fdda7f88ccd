import fc from 'fast-check';
import { expect, test } from 'vitest';
import { RandomStream } from './random.ts';
import { allow, allowsOnly, createTokenMask } from '@trainyard/backend';
import { maskRow } from './mask-row.ts';

test('any mask: exactly the allowed logits stay', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 300 }),
      fc.array(fc.nat(299), { maxLength: 300 }),
      fc.boolean(),
      (size, some, isFull) => {
        const allowed = new Set(isFull ? Array.from({ length: size }, (_, id) => id) : some.filter((id) => id < size));
        const mask = createTokenMask(size);
        allow(mask, allowed);
        const row = Float32Array.from({ length: size }, (_, id) => id);
        maskRow(row, mask);
        expect([...row]).toEqual(Array.from({ length: size }, (_, id) => (allowed.has(id) ? id : -Infinity)));
        expect(allowsOnly(mask, allowed)).toBe(true);
        const [one] = allowed;
        if (one !== undefined)
          expect(
            allowsOnly(
              mask,
              [...allowed].filter((id) => id !== one),
            ),
          ).toBe(false);
      },
    ),
    { numRuns: 300, seed: 4 },
  );
});

test('masking a row of 49,152 takes a fraction of the time of sampling', () => {
  const V = 49_152;
  const random = new RandomStream(8n);
  const shapes: [string, (id: number) => boolean][] = [
    ['10 tokens allowed', (id) => id % 5000 === 7],
    ['half allowed, at random', () => random.uniform() < 0.5],
    ['all allowed', () => true],
  ];
  for (const [name, isAllowed] of shapes) {
    const mask = createTokenMask(V);
    const allowed = Array.from({ length: V }, (_, id) => id).filter(isAllowed);
    allow(mask, allowed);
    const row = new Float32Array(V);
    const times = Array.from({ length: 60 }, () => {
      row.fill(1);
      const start = performance.now();
      maskRow(row, mask);
      return performance.now() - start;
    }).sort((a, b) => a - b);
    console.log(`mask over V = 49,152, ${name}: median ${times[30]!.toFixed(3)} ms`);
    expect(row.filter(Number.isFinite).length).toBe(allowed.length);
  }
});
