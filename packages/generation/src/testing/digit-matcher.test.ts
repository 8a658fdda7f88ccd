import { tokenMatcherSuite } from '@trainyard/constraints/testing';
import { DigitConstraints } from './digit-matcher.ts';
import { EOS, VOCAB_SIZE } from '@trainyard/engine/testing';

const digits = (text: string): number[] => [...Buffer.from(text)];

tokenMatcherSuite('of digits', () => {
  const constraints = new DigitConstraints();
  return {
    vocabSize: VOCAB_SIZE,
    endIds: [EOS],
    open: () => constraints.compile({ min: 2, max: 4 }),
    accepted: ['12', '123', '0000'].map(digits),
    refused: ['x', '1a', '12345'].map(digits),
    unfinished: ['', '7'].map(digits),
  };
});
