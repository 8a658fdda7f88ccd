import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Tokenizer } from '../index.ts';
import { ByteVocabulary } from '../testing/byte-vocabulary.ts';

const vocabulary = new ByteVocabulary();
const tokenizer = new Tokenizer(vocabulary);
const END = vocabulary.idOf('<|im_end|>');

function streamed(ids: Iterable<number>, skipSpecial: boolean, from = tokenizer): string[] {
  const decoder = from.createDecoder({ skipSpecial });
  return [...Array.from(ids, (id) => decoder.push(id)), decoder.end()];
}

test('any bytes, streamed, are the text of all bytes at once', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 40 }), (bytes) => {
      expect(streamed(bytes, false).join('')).toBe(new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes));
    }),
    { numRuns: 1000 },
  );
});

test('valid text never shows U+FFFD on the way', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }), (text) => {
      const pieces = streamed(tokenizer.encode(text), false);
      expect(pieces.join('')).toBe(text);
      expect(pieces.filter((piece) => piece.includes('\ufffd') && !text.includes('\ufffd'))).toEqual([]);
    }),
  );
});

test('a character comes with its last byte, a leading byte order mark stays, a cut one ends as U+FFFD', () => {
  expect(streamed(Buffer.from('😀'), false)).toEqual(['', '', '', '😀', '']);
  expect(tokenizer.decode(Buffer.from('\ufeffa'))).toBe('\ufeffa');
  expect(streamed(Buffer.from('😀').subarray(0, 3), false)).toEqual(['', '', '', '\ufffd']);
});

test('special tokens are their text, or nothing', () => {
  const ids = [...Buffer.from('a'), END, ...Buffer.from('b')];
  expect(tokenizer.decode(ids)).toBe('a<|im_end|>b');
  expect(tokenizer.decode(ids, { skipSpecial: true })).toBe('ab');
});

test('a vocabulary that puts a space in front loses exactly that one', () => {
  const spaced = new Tokenizer(vocabulary, { dropsLeadingSpace: true });
  expect(streamed(Buffer.from('  a b'), false, spaced).join('')).toBe(' a b');
  expect(spaced.decode(Buffer.from('a b'))).toBe('a b');
  expect(streamed([END, ...Buffer.from(' a')], true, spaced).join('')).toBe('a');
});

test('text after other text has no leading space, even if the vocabulary adds one', () => {
  const encodePlain = (text: string) => Int32Array.from(Buffer.from(` ${text}`));
  const spaced = new Tokenizer(vocabulary, { dropsLeadingSpace: true, encodePlain });
  expect(Buffer.from(spaced.encode('{"a"')).toString()).toBe(' {"a"');
  expect(Buffer.from(spaced.encodeAfter('{"a"')).toString()).toBe('{"a"');
  expect(Buffer.from(spaced.encodeAfter(' b')).toString()).toBe(' b');
  expect([...tokenizer.encodeAfter('{')]).toEqual([...tokenizer.encode('{')]);
});
