import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { badWords } from './bad-words.ts';
import { Harness } from '../testing/text-harness.ts';
import { BannedSequences, byteTokenizer, EOS, replying } from '@trainyard/engine/testing';

const PROMPT = 'hello';
const banned = (...args: Parameters<typeof badWords>): BannedSequences => new BannedSequences(badWords(...args));
const bytes = (text: string): number[] => [...Buffer.from(text)];

/** Tokenizer of words: each of the list is one token, with a leading space another. */
const WORDS = ['cat', ' cat', 'dog', ' dog', 'hot dog', ' hot'];
const wordTokenizer = {
  encodeWithSpecial: (text: string): Int32Array => {
    const whole = WORDS.indexOf(text);
    if (whole >= 0) return Int32Array.of(1000 + whole);
    return Int32Array.from(bytes(text));
  },
};

describe('bad words', () => {
  test('a word of one token is always banned, with and without a leading space', () => {
    const words = banned(['cat'], wordTokenizer);
    expect(words.bannedAfter([], 0)).toEqual([1000, 1001]);
    expect(words.bannedAfter([5, 6], 1)).toEqual([1000, 1001]);
  });

  test('white space in front of a word is left out before it is tokenised', () => {
    expect(banned([' \tcat'], wordTokenizer).bannedAfter([], 0)).toEqual([1000, 1001]);
  });

  test('the spaced form is left out when its length differs', () => {
    // one token per byte: a space is one more
    const words = banned(['ab'], byteTokenizer);
    expect(words.bannedAfter(bytes('a'), 0)).toEqual(bytes('b'));
    expect(words.bannedAfter(bytes(' '), 0)).toEqual([]);
  });

  test('a longer word is banned at its last token, and only after generated tokens', () => {
    const words = banned(['abc', 'xbd', 'q'], byteTokenizer);
    expect(words.bannedAfter(bytes('ab'), 0)).toEqual(bytes('qc'));
    expect(words.bannedAfter(bytes('..ab'), 2)).toEqual(bytes('qc'));
    expect(words.bannedAfter(bytes('.ab'), 2)).toEqual(bytes('q')); // its first token belongs to the prompt
    expect(words.bannedAfter(bytes('ab'), 2)).toEqual(bytes('q'));
    expect(words.bannedAfter(bytes('b'), 0)).toEqual(bytes('q'));
  });

  test('a word with half a character bans nothing, U+FFFD neither', () => {
    expect(badWords(['\udf89', 'a\ud83c', 'b'], byteTokenizer)).toEqual([bytes('b')]);
  });

  test('a word without tokens is refused', () => {
    expect(() => banned(['ab', '  '], byteTokenizer)).toThrow(/badWords.*at least 1 token.*" {2}"/);
    expect(new Harness().submit({ badWords: [' '] }).failed).toMatchObject({
      code: 'engine.invalid_request',
      param: 'badWords',
    });
  });

  test('any reply: the banned tokens are those of a plain search for every word', () => {
    const letters = fc.constantFrom('a', 'b', ' ');
    fc.assert(
      fc.property(
        fc.array(
          fc
            .string({ unit: letters, minLength: 1, maxLength: 4 })
            .filter((word) => word.trim() !== '')
            .map((word) => word.trimStart()),
          { minLength: 1, maxLength: 5 },
        ),
        fc.string({ unit: letters, maxLength: 8 }),
        fc.nat(4),
        (list, text, start) => {
          const tokens = bytes(text);
          const from = Math.min(start, tokens.length);
          const expected = new Set<number>();
          for (const word of list.map(bytes)) {
            const prefix = word.slice(0, -1);
            const generated = tokens.slice(from);
            if (
              generated.length >= prefix.length &&
              prefix.join() === generated.slice(generated.length - prefix.length).join()
            )
              expected.add(word.at(-1)!);
          }
          expect(new Set(banned(list, byteTokenizer).bannedAfter(tokens, from))).toEqual(expected);
        },
      ),
      { numRuns: 500, seed: 3 },
    );
  });

  test('in a reply the word does not come, though the prompt has it and the model wants it', () => {
    // Repeats "abc", and "-" if it may not.
    const script = (tokens: readonly number[], _path: string | null, row: Float32Array): void => {
      row.fill(0);
      row[45] = 10;
      row[bytes('abc')[(tokens.length - PROMPT.length) % 3]!] = 50;
    };
    const harness = new Harness({ logits: script });
    const free = harness.submit({ prompt: PROMPT, maxTokens: 6 });
    const banned = harness.submit({ prompt: PROMPT, maxTokens: 6, badWords: ['bc', 'hello'], logprobs: 0 });
    harness.run();
    expect(free.text()).toBe('abcabc');
    expect(banned.text()).toBe('ab-ab-');
    // Raw logprobs do not include the ban.
    expect(banned.logprobs()[2]!.logprob).toBeCloseTo(-40, 3);
  });

  test('a control token can be banned by its text', () => {
    const harness = new Harness({ logits: replying('ab', PROMPT.length) });
    const reply = harness.submit({ badWords: ['<|im_end|>'], maxTokens: 5 });
    harness.run();
    expect(reply.tokenIds()).not.toContain(EOS);
    expect(reply.tokenIds()).toHaveLength(5);
  });
});
