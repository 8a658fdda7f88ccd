import type { StreamDecoder } from '@trainyard/tokenizer';
import type { TextTokenizer } from '../contract/text-tokenizer.ts';
import { MarkerFinder } from './marker-finder.ts';
import { REASONING_END, REASONING_START } from '../prompt/reply-traits.ts';

/** Limit shared by all choices of a request. */
export interface ThinkingLimit {
  /** Tokens of reasoning, at least 0. */
  readonly maxTokens: number;
  /** The prompt has opened the think block; otherwise the reply may. */
  readonly startsInside: boolean;
  readonly endIds: readonly number[];
}

/**
 * Ends the reasoning of one choice: once the budget is used up, it forces the tokens of the end marker, one
 * by one.
 */
export class ThinkingBudget {
  readonly #limit: ThinkingLimit;
  readonly #end: MarkerFinder;
  /** Text so far, while the reply may still open the think block. */
  #opening: { text: string; readonly decoder: StreamDecoder } | null;
  #isThinking: boolean;
  /** Last tokens of reasoning that may start the end marker. */
  #tail: number[] = [];
  #numTokens = 0;

  constructor(limit: ThinkingLimit, tokenizer: TextTokenizer) {
    this.#limit = limit;
    this.#end = new MarkerFinder(REASONING_END, tokenizer);
    this.#isThinking = limit.startsInside;
    this.#opening = limit.startsInside ? null : { text: '', decoder: tokenizer.createDecoder({ skipSpecial: false }) };
  }

  /** The token that must come next; null = any. */
  get forcedId(): number | null {
    const { maxTokens, endIds } = this.#limit;
    if (!this.#isThinking || this.#numTokens < maxTokens) return null;
    // Skips the part of the marker that the model has written by itself.
    let numWritten = Math.min(this.#tail.length, endIds.length - 1);
    while (numWritten > 0 && !endsWith(this.#tail, endIds.slice(0, numWritten))) numWritten--;
    return endIds[numWritten]!;
  }

  push(token: number): void {
    if (this.#opening !== null) this.#open(this.#opening, token);
    else if (this.#isThinking) this.#think(token);
  }

  #open(opening: { text: string; readonly decoder: StreamDecoder }, token: number): void {
    opening.text = (opening.text + opening.decoder.push(token)).trimStart();
    if (opening.text.startsWith(REASONING_START)) this.#isThinking = true;
    else if (REASONING_START.startsWith(opening.text)) return;
    this.#opening = null;
  }

  #think(token: number): void {
    this.#numTokens++;
    this.#tail.push(token);
    if (this.#tail.length >= this.#limit.endIds.length) this.#tail.shift();
    if (this.#end.push(token) !== null) this.#isThinking = false;
  }
}

function endsWith(ids: readonly number[], end: readonly number[]): boolean {
  return end.every((id, i) => ids[ids.length - end.length + i] === id);
}
