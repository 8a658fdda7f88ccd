import type { Reading, ReplyText } from './reply-text.ts';

const START = '<think>';
const END = '</think>';

/** State of the think block at the start of a reply: open, not started, or closed. */
export interface ReasoningState {
  /** The prompt has opened the block: the reply starts as reasoning. */
  startsInside: boolean;
  /** The prompt has closed the block: the whole reply is content. */
  isDisabled: boolean;
}

/**
 * Reads the reasoning at the start of a reply, without its tags but with inner white space.
 *
 * @param write gets the reasoning as it arrives
 * @returns false if the reply ended inside it, without content
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

// Marks that occur only between two turns: `<|im_end|>`, `<｜Assistant｜>`, `[/INST]`, `<end_of_turn>`, `</s>`.
const TURN_BORDER = /<[|｜][^|｜]*[|｜]>|\[\/?INST\]|<(?:start|end)_of_turn>|<\/?s>/;

/**
 * @param renderedPromptTail end of the prompt, at least its last turn. Only tags after the last border of turns
 * count
 * @returns null if the source mentions no think block: a model without reasoning
 */
export function detectReasoning(templateSource: string, renderedPromptTail: string): ReasoningState | null {
  if (!templateSource.includes(START) && !templateSource.includes(END)) return null;
  const start = renderedPromptTail.lastIndexOf(START);
  const end = renderedPromptTail.lastIndexOf(END);
  const isOpenTurn = !TURN_BORDER.test(renderedPromptTail.slice(Math.max(start, end)));
  return { startsInside: isOpenTurn && start > end, isDisabled: isOpenTurn && end > start };
}
