import { detectReasoning, type ReasoningState, type ToolFormat } from '@trainyard/tokenizer';
import type { TextTokenizer } from '../contract/text-tokenizer.ts';
import type { RenderedChat } from './chat.ts';

/** How replies to a prompt are written, as far as its template says. */
export interface ReplyTraits {
  /** null: in no format that is known. */
  readonly toolFormat: ToolFormat | null;
  /** null: the template knows no reasoning. */
  readonly reasoning: ReasoningState | null;
  /** The token that opens a think block; null when the vocabulary has none. */
  readonly thinkTokenId: number | null;
  /** That token is a control token, which gives no text unless special tokens are kept. */
  readonly isThinkHidden: boolean;
}

export const REASONING_START = '<think>';
export const REASONING_END = '</think>';

/** Characters of a prompt's end in which its last turn begins, for all but the longest of turns. */
const TAIL_CHARACTERS = 4096;

export function replyTraits(rendered: RenderedChat, tokenizer: TextTokenizer): ReplyTraits {
  const reasoning = detectReasoning(rendered.source, rendered.text.slice(-TAIL_CHARACTERS));
  const think = reasoning === null ? [] : tokenizer.encodeWithSpecial(REASONING_START);
  const thinkTokenId = think.length === 1 ? think[0]! : null;
  const isThinkHidden =
    thinkTokenId !== null && tokenizer.createDecoder({ skipSpecial: true }).push(thinkTokenId) === '';
  return { toolFormat: rendered.toolFormat, reasoning, thinkTokenId, isThinkHidden };
}
