import { detectReasoning, type ReasoningState, type ToolFormat } from '@trainyard/tokenizer';
import type { TextTokenizer } from '../contract/text-tokenizer.ts';
import type { RenderedChat } from './chat.ts';

/** Format of replies to a prompt, derived from its template. */
export interface ReplyTraits {
  /** null: unknown. */
  readonly toolFormat: ToolFormat | null;
  /** null: the template has no reasoning. */
  readonly reasoning: ReasoningState | null;
  /** Token that opens a think block; null if the vocabulary has none. */
  readonly thinkTokenId: number | null;
  /** True if that token is a control token, which gives no text unless special tokens are kept. */
  readonly isThinkHidden: boolean;
}

export const REASONING_START = '<think>';
export const REASONING_END = '</think>';

/** Characters at a prompt's end that contain the start of its last turn, except for the longest turns. */
const TAIL_CHARACTERS = 4096;

export function replyTraits(rendered: RenderedChat, tokenizer: TextTokenizer): ReplyTraits {
  const reasoning = detectReasoning(rendered.source, rendered.text.slice(-TAIL_CHARACTERS));
  const think = reasoning === null ? [] : tokenizer.encodeWithSpecial(REASONING_START);
  const thinkTokenId = think.length === 1 ? think[0]! : null;
  const isThinkHidden =
    thinkTokenId !== null && tokenizer.createDecoder({ skipSpecial: true }).push(thinkTokenId) === '';
  return { toolFormat: rendered.toolFormat, reasoning, thinkTokenId, isThinkHidden };
}
