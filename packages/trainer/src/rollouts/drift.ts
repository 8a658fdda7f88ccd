import type { ChatTemplate, HistoryItem } from '@trainyard/tokenizer';
import type { HistoryDrift } from './sequence-report.ts';
import type { History } from './trajectory.ts';

/** Whether an item is an assistant turn that came without log-probabilities. */
export function isTurnWithoutLogprobs(item: HistoryItem): boolean {
  return item.kind === 'choice' ? item.logprobs.every(Number.isNaN) : item.message.role === 'assistant';
}

/**
 * How the trained part of a history, up to its last choice, differs from exactly what was sampled.
 *
 * @param items The history as it is trained; `history` as it was sent.
 */
export function driftOf(template: ChatTemplate, history: History, items: readonly HistoryItem[]): HistoryDrift {
  const { endTokenIds } = template.tokenizer;
  const last = items.findLastIndex((item) => item.kind === 'choice' && item.tokenIds.length > 0);
  const sent = history.items.slice(0, last + 1);
  const sampled = sent.filter((item) => item.kind === 'choice');
  return {
    numTruncatedChoices: sampled.filter(({ tokenIds }) => !endTokenIds.has(tokenIds.at(-1) ?? -1)).length,
    numRetokenizedTurns: sent.filter((item) => item.kind === 'message' && item.message.role === 'assistant').length,
    numChoicesWithOtherText: sampled.filter(({ message, tokenIds }) => {
      const { content } = message;
      if (typeof content !== 'string') return false;
      return !isContained(content, template.tokenizer.decode(tokenIds));
    }).length,
  };
}

/**
 * Whether the characters of `content` occur in `text` in their order. Parsers only ever take away (reasoning, tool calls, end tokens,
 * white space), so a reply that says something else was not these tokens. Characters that were cut apart read as U+FFFD on either side.
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
