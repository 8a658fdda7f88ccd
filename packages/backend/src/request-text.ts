import type { FinishReason } from './sample-event.ts';
import type { TokenMask } from './vocabulary/token-mask.ts';

/**
 * Hooks through which text takes part in the sampling of one request. The sampler knows no text: without
 * hooks a reply is token ids and ends only by them.
 */
export interface RequestText {
  /** True if tokens are masked: replies are then not sampled from the model's distribution. */
  readonly isMasking: boolean;
  /** Name of the request field that set the mask. Default `constraint`. */
  readonly maskingField?: string;
  /**
   * All masking as the spec of a constraint on the whole reply, for a back end that enforces it; null if it
   * cannot be expressed so.
   */
  readonly wholeConstraint: { readonly kind: string } | null;
  /** Opens the text of a choice that is about to run. */
  openChoice(): ChoiceText;
  /**
   * Text of a whole reply, the concatenation of {@link ChoiceText.push}, if nothing is searched for in it.
   */
  textOf(tokenIds: readonly number[]): string;
  /** Ends the request, after its choices are closed. */
  close(): void;
}

export interface ChoiceText {
  /** null = any text. */
  readonly constraint: ChoiceConstraint | null;
  /** The token that must come next; null = any. */
  readonly forcedId: number | null;
  /**
   * Advances by a sampled token.
   * @param ending end of the choice here by the tokens themselves; null = none
   */
  push(token: number, ending: TokenEnding | null): StopVerdict;
  close(): void;
}

/** Holds one choice to its request's constraint. Its state depends only on the reply, not on cells. */
export interface ChoiceConstraint {
  /** True until the text after which the constraint starts. */
  readonly isWaiting: boolean;
  /**
   * Masks the tokens that may not come next.
   * @param mask `[ceil(V / 32)]`, with any content; left unchanged if any token may come
   * @returns `complete` if only end tokens are left, which no other mask then removes
   * @throws {EngineError} engine.internal, engine.constraint_exhausted; engine.no_token_left if it would
   *   allow none
   */
  fillMask(mask: TokenMask): 'any' | 'masked' | 'complete';
  /**
   * Checks a token while waiting: false if it ends the wait and continues with a text that the constraint
   * cannot start with.
   */
  admits(token: number): boolean;
  /** True for an end token under a started constraint: it ends the choice even with `ignoreEos`. */
  endsWith(token: number): boolean;
  /**
   * Advances by a sampled token that ended nothing. @throws {EngineError} engine.internal if it was not
   * allowed; engine.constraint_exhausted
   */
  accept(token: number): void;
}

export interface Finish {
  reason: FinishReason;
  stopReason: string | number | null;
}

/** An end that is visible without text. */
export interface TokenEnding extends Finish {
  /**
   * True for an end or stop token, which gives text only if requested; it takes precedence over ends by text.
   */
  readonly isToken: boolean;
}

export interface StopVerdict {
  /** Text that is final now; '' while a character is incomplete or a stop string may have started. */
  text: string;
  finish: Finish | null;
}
