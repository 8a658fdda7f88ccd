import type { TextTokenizer } from '../contract/text-tokenizer.ts';
import { refusal } from '@trainyard/backend';
import { naming } from '@trainyard/protocol/fields';

/**
 * Words that a reply must not contain, as tokens. Each word stands for two sequences: as it is, left-trimmed, and with one space in front where that
 * changes the first token and not the length. A word with half a character (a lone surrogate) is in no reply and bans nothing: as tokens it would be U+FFFD.
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
