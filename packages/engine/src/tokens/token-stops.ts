import type { TokenEnding } from '@trainyard/backend';
import type { RepetitionDetection } from '@trainyard/protocol/fields';
import { RepetitionDetector } from './repetition-detector.ts';

export interface TokenStopConditions {
  /** The tokenizer's own end token: stops with stopReason null unless `ignoreEos`. */
  eosTokenId: number;
  /** All end-of-generation ids; ids other than `eosTokenId` stop with their id as the reason. */
  endTokenIds: ReadonlySet<number>;
  ignoreEos: boolean;
  /** Stop regardless of `ignoreEos`, with the id as stopReason. */
  stopTokenIds: ReadonlySet<number>;
  /** Minimum tokens before a repetition can end the choice. */
  minTokens: number;
  /** At least 1. */
  maxTokens: number;
  repetition: RepetitionDetection | null;
}

/** Detects the end of one choice by its tokens. Order of the checks: end token, stop token, length, repetition. */
export class TokenStops {
  readonly #conditions: TokenStopConditions;
  readonly #repetition: RepetitionDetector | null;
  #numTokens = 0;

  constructor(conditions: TokenStopConditions) {
    const { repetition, maxTokens } = conditions;
    this.#conditions = conditions;
    this.#repetition =
      repetition === null || repetition.maxPatternSize === 0 ? null : new RepetitionDetector(repetition, maxTokens);
  }

  /** @param isForcedEnd an end token that stops even under `ignoreEos` */
  push(token: number, isForcedEnd = false): TokenEnding | null {
    const { eosTokenId, endTokenIds, ignoreEos, stopTokenIds, minTokens, maxTokens } = this.#conditions;
    this.#numTokens++;
    const heedsEnd = !ignoreEos || isForcedEnd;
    const isEnd = heedsEnd && token === eosTokenId;
    if (isEnd || stopTokenIds.has(token) || (heedsEnd && endTokenIds.has(token)))
      return { reason: 'stop', stopReason: isEnd ? null : token, isToken: true };
    const isRepetition = this.#repetition?.push(token) ?? false;
    if (this.#numTokens >= maxTokens) return { reason: 'length', stopReason: null, isToken: false };
    if (isRepetition && this.#numTokens >= minTokens)
      return { reason: 'repetition', stopReason: 'repetition_detected', isToken: false };
    return null;
  }
}
