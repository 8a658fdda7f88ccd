import fc from 'fast-check';
import { expect, test } from 'vitest';
import { BytePairEncoder } from './byte-pair-encoder.ts';
import { pass, splitText } from './splitter.ts';

const LETTERS = ['a', 'b', 'c', 'd'];
const MERGES = ['a b', 'b a', 'ab ab', 'c d', 'ab c', 'b c', 'a a', 'aa aa', 'd d', 'abc d', 'missing x'];
const TOKENS = [...LETTERS, ...MERGES.slice(0, -1).map((merge) => merge.replace(' ', '')), '<u>', 'dcba'];
const vocabulary = { tokens: TOKENS, merges: MERGES, userDefined: [{ id: TOKENS.indexOf('<u>'), text: '<u>' }] };
const splitter = { passes: [pass(String.raw`\S+`)], prefersWholeWords: false, isSafeInLlamaCpp: false };
const encoder = new BytePairEncoder(vocabulary, splitter);
const texts = (ids: Int32Array) => [...ids].map((id) => TOKENS[id]);

/** Reference by definition: merge the leftmost pair of lowest rank until none is left. */
function mergedByDefinition(word: string): string[] {
  const symbols = Array.from(word);
  for (;;) {
    const ranks = symbols.slice(1).map((right, index) => MERGES.indexOf(`${symbols[index]} ${right}`));
    const lowest = Math.min(...ranks.filter((rank) => rank >= 0));
    if (lowest === Infinity) return symbols;
    const at = ranks.indexOf(lowest);
    symbols.splice(at, 2, `${symbols[at]}${symbols[at + 1]}`);
  }
}

test('merges by definition', () => {
  fc.assert(
    fc.property(fc.string({ unit: fc.constantFrom(...LETTERS), maxLength: 40 }), (word) => {
      expect(texts(encoder.encode(word))).toEqual(mergedByDefinition(word));
    }),
    { numRuns: 1000 },
  );
});

test('user-defined tokens are found inside text and cut words', () => {
  expect(texts(encoder.encode('a<u>b'))).toEqual(['a', '<u>', 'b']);
});

test('a vocabulary that prefers whole words skips the merges for them', () => {
  expect(texts(encoder.encode('dcba'))).not.toEqual(['dcba']);
  expect(texts(new BytePairEncoder(vocabulary, { ...splitter, prefersWholeWords: true }).encode('dcba'))).toEqual([
    'dcba',
  ]);
});

test('each pass splits the pieces of the one before, and nothing is lost', () => {
  expect(splitText('ab12  c', [/\d/gu, / ?[a-z]+/gu])).toEqual(['ab', '1', '2', ' ', ' c']);
  fc.assert(
    fc.property(fc.string(), (text) => splitText(text, [/\d/gu, pass(String.raw`\s+(?!\S)|\s`)]).join('') === text),
  );
  expect(splitText('a\u0085b\ufeffc', [pass(String.raw`\s`)])).toEqual(['a', '\u0085', 'b\ufeffc']);
});
