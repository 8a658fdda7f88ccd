import { randomSource, TINY_ARCHITECTURE } from '@trainyard/transformer/testing';
import { expect, test } from 'vitest';
import { DecoderHead } from './decoder-head.ts';

test('a vocabulary in parts has the logits of one in a piece', () => {
  const { vocabSize, hiddenSize } = TINY_ARCHITECTURE;
  const random = randomSource(2);
  const values = (length: number) => Float32Array.from({ length }, () => random());
  const [vocabulary, norm, hidden] = [values(vocabSize * hiddenSize), values(hiddenSize), values(5 * hiddenSize)];
  const logitsOf = (maxPartBytes: number): Float32Array => {
    const head = new DecoderHead({ vocabulary, norm }, TINY_ARCHITECTURE, 1, maxPartBytes);
    const logits = new Float32Array(5 * vocabSize);
    head.run(hidden, logits);
    head.close();
    return logits;
  };
  const whole = logitsOf(1 << 30);
  // In 2 parts, in 5 with a smaller last one, and one per token.
  for (const rowsOfPart of [24, 10, 1]) expect(logitsOf(4 * hiddenSize * rowsOfPart)).toEqual(whole);
});
