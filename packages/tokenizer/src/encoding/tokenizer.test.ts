import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Tokenizer } from '../index.ts';
import { EncodedFragments } from './encoded-fragments.ts';
import { ByteVocabulary } from '../testing/byte-vocabulary.ts';

const vocabulary = new ByteVocabulary({ userDefinedTokens: ['<think>'] });
const tokenizer = new Tokenizer(vocabulary);

test('plain text gives no control tokens, trusted text does, and both give user-defined ones', () => {
  const text = 'a<|im_end|><think>';
  expect([...tokenizer.encode(text)]).toEqual([...Buffer.from('a<|im_end|>'), vocabulary.idOf('<think>')]);
  expect([...tokenizer.encodeWithSpecial(text)]).toEqual([
    97,
    vocabulary.idOf('<|im_end|>'),
    vocabulary.idOf('<think>'),
  ]);
  expect(tokenizer.isControl(vocabulary.idOf('<|im_end|>'))).toBe(true);
  expect(tokenizer.isControl(vocabulary.idOf('<think>'))).toBe(false);
  expect(tokenizer.endTokenIds).toEqual(new Set([vocabulary.idOf('<|endoftext|>'), vocabulary.idOf('<|im_end|>')]));
});

test('text that cannot fit is refused before it is tokenised, with the limit and the size', () => {
  const small = new Tokenizer(new ByteVocabulary({ contextLength: 10, controlTokens: ['<e>'], endToken: '<e>' })); // 10 × 3 bytes
  expect(small.encode('é'.repeat(15))).toHaveLength(30);
  expect(() => small.encode('é'.repeat(16))).toThrow(
    expect.objectContaining({
      code: 'tokenizer.text_too_long',
      message: expect.stringMatching(/32 bytes; at most 30/),
    }),
  );
  expect(() => small.encodeWithSpecial('x'.repeat(31))).toThrow(
    expect.objectContaining({ code: 'tokenizer.text_too_long' }),
  );
});

test('an id outside the vocabulary is refused', () => {
  for (const id of [-1, vocabulary.vocabSize, 1.5, Number.NaN])
    expect(() => tokenizer.tokenBytes(id)).toThrow(RangeError);
});

test('a lone surrogate is U+FFFD', () => {
  expect(tokenizer.decode(tokenizer.encode('a\ud83d'))).toBe('a\ufffd');
});

test('texts encoded in sequence have the same ids as each text alone', () => {
  const part = fc.constantFrom('<|im_start|>', '<|im_end|>', '<|im', 'user\n', ' ', 'é', '<think>');
  const texts = fc.array(
    fc.array(part, { maxLength: 8 }).map((parts) => parts.join('')),
    { maxLength: 6 },
  );
  fc.assert(
    fc.property(texts, (all) => {
      const last = new EncodedFragments();
      const upper = (fragment: string) => fragment.toUpperCase();
      for (const text of all)
        expect(tokenizer.encodeFragments(text, upper, last)).toEqual(tokenizer.encodeFragments(text, upper));
    }),
  );
});
