import type { ChatTemplate, ChoiceItem, HistoryItem } from '@trainyard/tokenizer';
import type { HistoryDrift } from './sequence-report.ts';
import type { History } from './trajectory.ts';

/** True for an assistant turn without log-probabilities. */
export function isTurnWithoutLogprobs(item: HistoryItem): boolean {
  return item.kind === 'choice' ? item.logprobs.every(Number.isNaN) : item.message.role === 'assistant';
}

/** Turns with unknown ids up to the last choice; their text is tokenised again. */
export function numRetokenizedTurns({ items }: History): number {
  const last = items.findLastIndex((item) => item.kind === 'choice' && item.tokenIds.length > 0);
  const before = items.slice(0, last + 1);
  return before.filter((item) => item.kind === 'message' && item.message.role === 'assistant').length;
}

/** Compares trained choices with the sampled ones. */
export function driftOf(
  { tokenizer }: ChatTemplate,
  choices: readonly ChoiceItem[],
): Pick<HistoryDrift, 'numTruncatedChoices' | 'numChoicesWithOtherText'> {
  return {
    numTruncatedChoices: choices.filter(({ tokenIds }) => !tokenizer.endTokenIds.has(tokenIds.at(-1) ?? -1)).length,
    numChoicesWithOtherText: choices.filter(({ message, tokenIds }) => {
      const { content } = message;
      return typeof content === 'string' && !isContained(content, tokenizer.decode(tokenIds));
    }).length,
  };
}

/**
 * True if the characters of `content` occur in `text` in order. Parsers only remove text (reasoning, tool calls,
 * end tokens, white space). Incomplete characters are U+FFFD on either side.
 */
function isContained(content: string, text: string): boolean {
  let at = 0;
  for (const character of content) {
    if (character.trim() === '' || character === '\uFFFD') continue;
    at = text.indexOf(character, at) + character.length;
    if (at < character.length) return false;
  }
  return true;
}
