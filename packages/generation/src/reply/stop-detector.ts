import type { StreamDecoder } from '@trainyard/tokenizer';
import type { StopVerdict, TokenEnding } from '@trainyard/backend';
import { openReplyGate, type ReasoningForm, type ReplyGate } from './reply-gate.ts';
import type { StopStrings } from './stop-strings.ts';

export interface StopConditions {
  stop: StopStrings;
  /** Keeps the matched stop string, or the text of the stopping token. */
  includeStopString: boolean;
  /** Text of the first minTokens tokens never completes a stop string. */
  minTokens: number;
  /** Form of the reasoning in which stop strings do not count. Null: they count everywhere. */
  reasoning: ReasoningForm | null;
}

/**
 * Turns one choice's tokens into text and detects its end: an end or stop token takes precedence over a stop
 * string, which takes precedence over length and repetition.
 *
 * Holds back text that may start a stop string until the next token decides. Of several matches the one that
 * ends first wins, then the first in the list.
 */
export class StopDetector {
  readonly #conditions: StopConditions;
  readonly #decoder: StreamDecoder;
  readonly #gate: ReplyGate | null;
  #numTokens = 0;
  /** Decoded text not sent yet. */
  #held = '';
  #state = 0;

  constructor(conditions: StopConditions, decoder: StreamDecoder) {
    this.#conditions = conditions;
    this.#decoder = decoder;
    this.#gate = conditions.reasoning && openReplyGate(conditions.reasoning);
  }

  /** @param ending end of the choice at this token by the tokens themselves; null = none */
  push(token: number, ending: TokenEnding | null): StopVerdict {
    const { includeStopString, minTokens } = this.#conditions;
    this.#numTokens++;
    const finish = ending && { reason: ending.reason, stopReason: ending.stopReason };
    if (ending?.isToken) {
      const last = includeStopString ? this.#decoder.push(token) : '';
      return { text: this.#flush(last), finish };
    }
    const fresh = this.#decoder.push(token);
    for (const { text, isAnswer } of this.#gate?.push(fresh) ?? [{ text: fresh, isAnswer: true }]) {
      const match = isAnswer ? this.#read(text, this.#numTokens > minTokens) : this.#pass(text);
      if (match === null) continue;
      const kept = this.#held.slice(0, match.cutAt);
      this.#held = '';
      return { text: kept, finish: { reason: 'stop', stopReason: match.stop } };
    }
    return { text: finish === null ? this.#release() : this.#flush(''), finish };
  }

  /** Adds new text. @returns the match that ends first in it; `cutAt` is an index into the held text */
  #read(fresh: string, isSearching: boolean): { stop: string; cutAt: number } | null {
    const { stop: stops, includeStopString } = this.#conditions;
    const start = this.#held.length;
    this.#held += fresh;
    if (stops.isEmpty) return null;
    for (let i = 0; i < fresh.length; i++) {
      this.#state = stops.step(this.#state, fresh.charCodeAt(i));
      const stop = isSearching ? stops.endingAt(this.#state) : null;
      if (stop !== null) return { stop, cutAt: start + i + 1 - (includeStopString ? 0 : stop.length) };
    }
    return null;
  }

  /** Adds new text in which stop strings do not count; no match extends across it. */
  #pass(text: string): null {
    this.#held += text;
    if (text !== '') this.#state = 0;
    return null;
  }

  /** Returns text that no stop string can affect any more; an included one is text like any other. */
  #release(): string {
    const { stop: stops, includeStopString } = this.#conditions;
    const length = this.#held.length - (includeStopString ? 0 : stops.begunAt(this.#state));
    const text = this.#held.slice(0, length);
    this.#held = this.#held.slice(length);
    return text;
  }

  /** @param last text of the token that ends the choice */
  #flush(last: string): string {
    const text = this.#held + (this.#gate?.end() ?? '') + last + this.#decoder.end();
    this.#held = '';
    return text;
  }
}
