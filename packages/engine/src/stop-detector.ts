import type { StreamDecoder } from '@trainyard/tokenizer';
import type { FinishReason } from './generate-request.ts';

export interface StopConditions {
  /** The tokenizer's own end token: stops with stopReason null unless `ignoreEos`. */
  eosTokenId: number;
  /** All end-of-generation ids; those besides `eosTokenId` stop with their id as the reason. */
  endTokenIds: ReadonlySet<number>;
  ignoreEos: boolean;
  /** Stop whatever `ignoreEos` says; the id is the stopReason. */
  stopTokenIds: ReadonlySet<number>;
  /** None may be empty. */
  stop: readonly string[];
  /** Keep the matched stop string, or the text of the stopping token. */
  includeStopString: boolean;
  /** Text of the first minTokens tokens never completes a stop string. */
  minTokens: number;
  /** At least 1. */
  maxTokens: number;
}

export interface StopVerdict {
  /** Text that is certain now; '' while a character is incomplete or a stop string may have begun. */
  text: string;
  finish: { reason: FinishReason; stopReason: string | number | null } | null;
}

/**
 * Turns one choice's tokens into text and says when it ends. Order of the checks after a token: end token, stop token, stop string, length.
 *
 * Text that may be the beginning of a stop string is held back until the next token decides. Of several matches the one that ends first
 * wins, then the first in the list.
 */
export class StopDetector {
  readonly #conditions: StopConditions;
  readonly #decoder: StreamDecoder;
  readonly #longestStop: number;
  #numTokens = 0;
  /** Decoded and not yet given out, preceded by `#context`. */
  #held = '';
  /** The tail of what was given out, where an included stop string may have begun. */
  #context = '';

  constructor(conditions: StopConditions, decoder: StreamDecoder) {
    this.#conditions = conditions;
    this.#decoder = decoder;
    this.#longestStop = conditions.stop.reduce((longest, stop) => Math.max(longest, stop.length), 0);
  }

  push(token: number): StopVerdict {
    const { eosTokenId, endTokenIds, ignoreEos, stopTokenIds, includeStopString, minTokens, maxTokens } =
      this.#conditions;
    this.#numTokens++;
    const isEnd = !ignoreEos && token === eosTokenId;
    if (isEnd || stopTokenIds.has(token) || (!ignoreEos && endTokenIds.has(token))) {
      if (includeStopString) this.#held += this.#decoder.push(token);
      return { text: this.#flush(), finish: { reason: 'stop', stopReason: isEnd ? null : token } };
    }

    const fresh = this.#decoder.push(token);
    this.#held += fresh;
    if (this.#numTokens > minTokens) {
      const match = this.#findStop(fresh.length);
      if (match !== null) {
        const text = this.#held.slice(0, Math.max(0, match.cutAt));
        this.#held = '';
        return { text, finish: { reason: 'stop', stopReason: match.stop } };
      }
    }
    if (this.#numTokens >= maxTokens) return { text: this.#flush(), finish: { reason: 'length', stopReason: null } };
    return { text: this.#release(), finish: null };
  }

  /** The match that ends first and reaches into the last `freshLength` characters. `cutAt` is an index into the held text. */
  #findStop(freshLength: number): { stop: string; cutAt: number } | null {
    if (freshLength === 0) return null;
    const { stop: stops, includeStopString } = this.#conditions;
    const text = this.#context + this.#held;
    let best: { stop: string; end: number } | null = null;
    for (const stop of stops) {
      const at = text.indexOf(stop, Math.max(0, text.length - freshLength - stop.length + 1));
      if (at >= 0 && (best === null || at + stop.length < best.end)) best = { stop, end: at + stop.length };
    }
    if (best === null) return null;
    const end = best.end - this.#context.length;
    return { stop: best.stop, cutAt: includeStopString ? end : end - best.stop.length };
  }

  /** Gives out what no stop string can touch any more. */
  #release(): string {
    const { stop: stops, includeStopString } = this.#conditions;
    const held = this.#held;
    // An included stop string is text like any other: nothing need wait, but the tail is remembered for matching.
    const keep = includeStopString ? 0 : longestBegunStop(held, stops, this.#longestStop);
    const text = held.slice(0, held.length - keep);
    this.#held = held.slice(held.length - keep);
    if (includeStopString && this.#longestStop > 1) this.#context = (this.#context + text).slice(1 - this.#longestStop);
    return text;
  }

  #flush(): string {
    const text = this.#held + this.#decoder.end();
    this.#held = '';
    return text;
  }
}

/** Length of the longest tail of `text` with which some stop string begins. */
function longestBegunStop(text: string, stops: readonly string[], longestStop: number): number {
  for (let length = Math.min(text.length, longestStop - 1); length > 0; length--) {
    const tail = text.slice(text.length - length);
    if (stops.some((stop) => stop.length > length && stop.startsWith(tail))) return length;
  }
  return 0;
}
