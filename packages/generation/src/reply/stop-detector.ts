import type { StreamDecoder } from '@trainyard/tokenizer';
import type { StopVerdict, TokenEnding } from '@trainyard/backend';
import type { StopStrings } from './stop-strings.ts';

export interface StopConditions {
  stop: StopStrings;
  /** Keep the matched stop string, or the text of the stopping token. */
  includeStopString: boolean;
  /** Text of the first minTokens tokens never completes a stop string. */
  minTokens: number;
}

/**
 * Turns one choice's tokens into text and says when that ends it: an end or stop token comes before a stop string, which comes before length and repetition.
 *
 * Text that may be the beginning of a stop string is held back until the next token decides. Of several matches the one that ends first
 * wins, then the first in the list.
 */
export class StopDetector {
  readonly #conditions: StopConditions;
  readonly #decoder: StreamDecoder;
  #numTokens = 0;
  /** Decoded and not yet given out. */
  #held = '';
  /** State of the stop-string automaton after all text so far. */
  #state = 0;

  constructor(conditions: StopConditions, decoder: StreamDecoder) {
    this.#conditions = conditions;
    this.#decoder = decoder;
  }

  /** @param ending how the tokens by themselves end the choice here; null = they do not */
  push(token: number, ending: TokenEnding | null): StopVerdict {
    const { includeStopString, minTokens } = this.#conditions;
    this.#numTokens++;
    const finish = ending && { reason: ending.reason, stopReason: ending.stopReason };
    if (ending?.isToken) {
      if (includeStopString) this.#held += this.#decoder.push(token);
      return { text: this.#flush(), finish };
    }
    const match = this.#read(this.#decoder.push(token), this.#numTokens > minTokens);
    if (match !== null) {
      const text = this.#held.slice(0, match.cutAt);
      this.#held = '';
      return { text, finish: { reason: 'stop', stopReason: match.stop } };
    }
    return { text: finish === null ? this.#release() : this.#flush(), finish };
  }

  /** Takes new text. @returns the match that ends first in it, `cutAt` being an index into the held text */
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

  /** Gives out what no stop string can touch any more; an included one is text like any other. */
  #release(): string {
    const { stop: stops, includeStopString } = this.#conditions;
    const length = this.#held.length - (includeStopString ? 0 : stops.begunAt(this.#state));
    const text = this.#held.slice(0, length);
    this.#held = this.#held.slice(length);
    return text;
  }

  #flush(): string {
    const text = this.#held + this.#decoder.end();
    this.#held = '';
    return text;
  }
}
