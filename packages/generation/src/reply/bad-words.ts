import type { TextTokenizer } from '../contract/text-tokenizer.ts';
import { refusal } from '@trainyard/backend';
import { naming } from '@trainyard/protocol/fields';

/**
 * Banned words of a reply, as tokens. Each word gives two sequences: left-trimmed, and with one leading space
 * if that changes the first token but not the length. A word with half a character (a lone surrogate) occurs
 * in no reply and bans nothing: as tokens it would be U+FFFD.
 *
 * @throws {EngineError} engine.invalid_request for a word without tokens
 * @see vLLM, `SamplingParams.bad_words`
 */
export function badWords(
  words: readonly string[],
  tokenizer: Pick<TextTokenizer, 'encodeWithSpecial'>,
): readonly (readonly number[])[] {
  return words.filter((word) => word.isWellFormed()).flatMap((word) => tokenSequences(word, tokenizer));
}

function tokenSequences(word: string, tokenizer: Pick<TextTokenizer, 'encodeWithSpecial'>): (readonly number[])[] {
  const [plain, spaced] = ['', ' '].map((prefix) =>
    Array.from(tokenizer.encodeWithSpecial(prefix + word.trimStart())),
  ) as [number[], number[]];
  if (plain.length === 0) {
    throw refusal(
      'badWords',
      naming`${{ field: 'badWords' }} must be words with at least 1 token, got ${JSON.stringify(word)}`,
    );
  }
  return spaced.length === plain.length && spaced[0] !== plain[0] ? [plain, spaced] : [plain];
}
