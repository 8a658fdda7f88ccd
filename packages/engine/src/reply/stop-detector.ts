import type { StreamDecoder } from '@trainyard/tokenizer';
import type { FinishReason, RepetitionDetection } from '../contract/generate-request.ts';
import { RepetitionDetector } from './repetition-detector.ts';
import type { StopStrings } from './stop-strings.ts';

export interface StopConditions {
  /** The tokenizer's own end token: stops with stopReason null unless `ignoreEos`. */
  eosTokenId: number;
  /** All end-of-generation ids; those besides `eosTokenId` stop with their id as the reason. */
  endTokenIds: ReadonlySet<number>;
  ignoreEos: boolean;
  /** Stop whatever `ignoreEos` says; the id is the stopReason. */
  stopTokenIds: ReadonlySet<number>;
  stop: StopStrings;
  /** Keep the matched stop string, or the text of the stopping token. */
  includeStopString: boolean;
  /** Text of the first minTokens tokens never completes a stop string, and no repetition ends before. */
  minTokens: number;
  /** At least 1. */
  maxTokens: number;
  repetition: RepetitionDetection | null;
}

export interface StopVerdict {
  /** Text that is certain now; '' while a character is incomplete or a stop string may have begun. */
  text: string;
  finish: { reason: FinishReason; stopReason: string | number | null } | null;
}

/**
 * Turns one choice's tokens into text and says when it ends. Order of the checks after a token: end token, stop token, stop string, length,
 * repetition.
 *
 * Text that may be the beginning of a stop string is held back until the next token decides. Of several matches the one that ends first
 * wins, then the first in the list.
 */
export class StopDetector {
  readonly #conditions: StopConditions;
  readonly #decoder: StreamDecoder;
  readonly #repetition: RepetitionDetector | null;
  #numTokens = 0;
  /** Decoded and not yet given out. */
  #held = '';
  /** Of the stop strings, after all text so far. */
  #state = 0;

  constructor(conditions: StopConditions, decoder: StreamDecoder) {
    const { repetition, maxTokens } = conditions;
    this.#conditions = conditions;
    this.#decoder = decoder;
    this.#repetition =
      repetition === null || repetition.maxPatternSize === 0 ? null : new RepetitionDetector(repetition, maxTokens);
  }

  /** @param isForcedEnd an end token that stops also under `ignoreEos` */
  push(token: number, isForcedEnd = false): StopVerdict {
    const { eosTokenId, endTokenIds, ignoreEos, stopTokenIds, includeStopString, minTokens, maxTokens } =
      this.#conditions;
    this.#numTokens++;
    const heedsEnd = !ignoreEos || isForcedEnd;
    const isEnd = heedsEnd && token === eosTokenId;
    if (isEnd || stopTokenIds.has(token) || (heedsEnd && endTokenIds.has(token))) {
      if (includeStopString) this.#held += this.#decoder.push(token);
      return { text: this.#flush(), finish: { reason: 'stop', stopReason: isEnd ? null : token } };
    }

    const isRepetition = this.#repetition?.push(token) ?? false;
    const match = this.#read(this.#decoder.push(token), this.#numTokens > minTokens);
    if (match !== null) {
      const text = this.#held.slice(0, match.cutAt);
      this.#held = '';
      return { text, finish: { reason: 'stop', stopReason: match.stop } };
    }
    if (this.#numTokens >= maxTokens) return { text: this.#flush(), finish: { reason: 'length', stopReason: null } };
    if (isRepetition && this.#numTokens >= minTokens) {
      return { text: this.#flush(), finish: { reason: 'repetition', stopReason: 'repetition_detected' } };
    }
    return { text: this.#release(), finish: null };
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
