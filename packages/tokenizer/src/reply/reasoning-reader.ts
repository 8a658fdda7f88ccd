import type { Reading, ReplyText } from './reply-text.ts';

const START = '<think>';
const END = '</think>';

/** How a reply begins: inside a think block, in front of one, or after one that is closed. */
export interface ReasoningState {
  /** The prompt has opened the block: the reply is reasoning from its first character. */
  startsInside: boolean;
  /** The prompt has closed the block, so that all of the reply is content. */
  isDisabled: boolean;
}

/**
 * Reads the reasoning a reply starts with. Its tags are no part of it, the white space inside is. Unless the prompt has opened the block
 * the reply must do so itself, or it has no reasoning.
 *
 * @param write gets the reasoning as it arrives
 * @returns false when the reply ended inside it: then there is no content
 */
export function* readReasoning(
  text: ReplyText,
  state: ReasoningState,
  write: (reasoning: string) => void,
): Reading<boolean> {
  if (state.isDisabled) return true;
  text.mark();
  yield* text.skipSpace();
  const hasStartTag = yield* text.accept(START);
  if (hasStartTag) text.unmark();
  else {
    text.rewind();
    if (!state.startsInside) return true;
  }
  const end = yield* text.scanTo([END], write);
  text.skip(END.length);
  return end !== null;
}

// What can only stand between two turns: `<|im_end|>`, `<｜Assistant｜>`, `[/INST]`, `<end_of_turn>`, `</s>`.
const TURN_BORDER = /<[|｜][^|｜]*[|｜]>|\[\/?INST\]|<(?:start|end)_of_turn>|<\/?s>/;

/**
 * How the replies to a prompt begin.
 *
 * @param templateSource a template that mentions no think block belongs to a model without reasoning: null
 * @param renderedPromptTail the end of the prompt, at least its last turn. A tag counts when no border of turns follows it
 */
export function detectReasoning(templateSource: string, renderedPromptTail: string): ReasoningState | null {
  if (!templateSource.includes(START) && !templateSource.includes(END)) return null;
  const start = renderedPromptTail.lastIndexOf(START);
  const end = renderedPromptTail.lastIndexOf(END);
  const isOpenTurn = !TURN_BORDER.test(renderedPromptTail.slice(Math.max(start, end)));
  return { startsInside: isOpenTurn && start > end, isDisabled: isOpenTurn && end > start };
}
