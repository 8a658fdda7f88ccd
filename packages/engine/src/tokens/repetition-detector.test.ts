import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Harness } from '../testing/token-harness.ts';
import { replying } from '../testing/scripted-logits.ts';
import type { RepetitionDetection } from '@trainyard/protocol/fields';
import { RepetitionDetector } from './repetition-detector.ts';

const PROMPT = 'hello';

/** Reference by definition: some pattern length at which the last block equals each of those before it. */
function endsInRepetition(
  tokens: readonly number[],
  { maxPatternSize, minPatternSize, minCount }: RepetitionDetection,
): boolean {
  for (let size = Math.max(1, minPatternSize); size <= maxPatternSize; size++) {
    if (size * minCount > tokens.length) continue;
    const blocks = Array.from({ length: minCount }, (_, i) =>
      tokens.slice(tokens.length - (i + 1) * size, tokens.length - i * size).join(),
    );
    if (new Set(blocks).size === 1) return true;
  }
  return false;
}

test('any reply: a repetition is found at the token of the definition', () => {
  let numFound = 0;
  fc.assert(
    fc.property(
      fc.array(fc.nat(2), { minLength: 1, maxLength: 40 }),
      fc.nat(6),
      fc.integer({ min: 1, max: 8 }),
      fc.integer({ min: 2, max: 4 }),
      (tokens, minPatternSize, maxPatternSize, minCount) => {
        const detection = { maxPatternSize, minPatternSize: Math.min(minPatternSize, maxPatternSize), minCount };
        const detector = new RepetitionDetector(detection, 40);
        for (const [i, token] of tokens.entries()) {
          const expected = endsInRepetition(tokens.slice(0, i + 1), detection);
          expect(detector.push(token)).toBe(expected);
          if (expected) numFound++;
        }
      },
    ),
    { numRuns: 500, seed: 9 },
  );
  expect(numFound).toBeGreaterThan(100);
});

test('a reply that repeats itself ends with the reason repetition, its text whole', () => {
  const harness = new Harness({ logits: replying('xababab and so on', PROMPT.length) });
  const repetitionDetection = { maxPatternSize: 3, minPatternSize: 2, minCount: 3 };
  const reply = harness.submit({ repetitionDetection, maxTokens: 20 });
  const off = harness.submit({
    repetitionDetection: { ...repetitionDetection, maxPatternSize: 0, minPatternSize: 0 },
    maxTokens: 20,
  });
  harness.run();
  expect(reply.text()).toBe('xababab');
  expect(reply.finished()).toMatchObject({ finishReason: 'repetition', stopReason: 'repetition_detected' });
  expect(off.finished()?.finishReason).toBe('stop');
});

test('the prompt does not count', () => {
  const harness = new Harness({ logits: replying('aab', 4) });
  const reply = harness.submit({
    prompt: 'aaaa',
    repetitionDetection: { maxPatternSize: 1, minPatternSize: 1, minCount: 3 },
  });
  harness.run();
  expect(reply.finished()?.finishReason).toBe('stop');
});

test('a pattern of a million tokens costs time in proportion to the reply only', () => {
  const start = performance.now();
  const detector = new RepetitionDetector({ maxPatternSize: 1e6, minPatternSize: 1, minCount: 2 }, 4000);
  let numRepetitions = 0;
  for (let i = 0; i < 4000; i++) if (detector.push(i % 2000 === 1999 ? 1 : i)) numRepetitions += 1;
  expect(numRepetitions).toBe(0);
  console.log(`4000 tokens, patterns up to 2000: ${(performance.now() - start).toFixed(1)} ms`);
});
