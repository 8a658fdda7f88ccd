import { expect, test } from 'vitest';
import { preTokenizerName } from './pre-tokenizer.ts';

/** Patterns as in the tokenizer.json of these models. */
const LLAMA3 = String.raw`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`;
const QWEN2 = String.raw`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`;

const byteLevel = (use_regex: boolean) => ({
  type: 'ByteLevel',
  add_prefix_space: false,
  trim_offsets: true,
  use_regex,
});
const split = (Regex: string) => ({ type: 'Split', pattern: { Regex }, behavior: 'Isolated', invert: false });
const sequence = (...pretokenizers: object[]) => ({ type: 'Sequence', pretokenizers });

test.each<[string, object, boolean, string]>([
  ['GPT-2', byteLevel(true), false, 'gpt-2'],
  ['SmolLM2', sequence({ type: 'Digits', individual_digits: true }, byteLevel(true)), false, 'smollm'],
  ['Llama 3', sequence(split(LLAMA3), byteLevel(false)), true, 'llama-bpe'],
  ['Smaug', sequence(split(LLAMA3), byteLevel(false)), false, 'smaug-bpe'],
  ['Qwen 2 and 3', sequence(split(QWEN2), byteLevel(false)), false, 'qwen2'],
])('the pre-tokenizer of %s has its name in GGUF', (_model, section, prefersWholeWords, name) => {
  expect(preTokenizerName(section, prefersWholeWords)).toBe(name);
});

test.each<[string, unknown, RegExp]>([
  ['no section', null, /the pre-tokenizer null .*not supported/],
  ['a space before the text', { ...byteLevel(true), add_prefix_space: true }, /"ByteLevel" .*with its settings/],
  ['digits in runs', sequence({ type: 'Digits', individual_digits: false }, byteLevel(true)), /"Digits"/],
  ['a split that removes', sequence({ ...split(QWEN2), behavior: 'Removed' }, byteLevel(false)), /"Split"/],
  ['letters that are no bytes', sequence(split(QWEN2)), /"Sequence"/],
  [
    'whole words with the rules of Qwen',
    sequence(split(QWEN2), byteLevel(false)),
    /with `ignore_merges`, which is not/,
  ],
])('%s is refused', (_name, section, message) => {
  expect(() => preTokenizerName(section, true)).toThrow(message);
});
